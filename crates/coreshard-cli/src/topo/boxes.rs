//! Layout of nested boxes: sizes them from the inside out, then places them from the outside in.
//!
//! Each box arranges its children in rows of equal length, with as many columns as best approximate the wanted shape.
//! This module does not know what the boxes stand for.

/// The margins of a box around its children, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Above the children, for a label.
    pub(super) header: f64,
    /// On the other three sides.
    pub(super) edge: f64,
    /// Between children.
    pub(super) gap: f64,
    /// The width of the label.
    pub(super) least_width: f64,
    /// The wanted ratio of width to height.
    pub(super) shape: f64,
    /// Whether children are widened to fill a box that its label made wider.
    pub(super) fills: bool,
}

/// A box: the object that it shows (`what`), and its children. A box without children has a given size.
#[derive(Debug)]
pub(super) struct Boxed<T> {
    pub(super) what: T,
    pub(super) children: Vec<Boxed<T>>,
    room: Room,
    width: f64,
    height: f64,
    columns: usize,
    /// The size of the largest child.
    cell: (f64, f64),
}

/// The position of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BoxPlace {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl<T> Boxed<T> {
    /// Creates a box with a given size and without children.
    pub(super) fn leaf(what: T, width: f64, height: f64) -> Self {
        let room =
            Room { header: 0.0, edge: 0.0, gap: 0.0, least_width: 0.0, shape: 1.0, fills: false };
        Self { what, children: Vec::new(), room, width, height, columns: 1, cell: (0.0, 0.0) }
    }

    /// A box around others.
    pub(super) fn around(what: T, children: Vec<Self>, room: Room) -> Self {
        let cell = children.iter().fold((0.0_f64, 0.0_f64), |(width, height), child| {
            (width.max(child.width), height.max(child.height))
        });
        let size = |columns: usize| {
            let rows = children.len().div_ceil(columns);
            let along = |count: usize, cell: f64| {
                count as f64 * cell + count.saturating_sub(1) as f64 * room.gap
            };
            let width = along(columns, cell.0) + 2.0 * room.edge;
            let height = along(rows, cell.1) + room.header + room.edge;
            (width.max(room.least_width), height)
        };
        // Deviation from the wanted shape, and unused room in the last row.
        let badness = |columns: usize| {
            let (width, height) = size(columns);
            let empty = columns * children.len().div_ceil(columns) - children.len();
            (width / height / room.shape).ln().abs() + 2.0 * empty as f64 / children.len() as f64
        };
        let columns = (1..=children.len().max(1))
            .min_by(|a, b| badness(*a).total_cmp(&badness(*b)))
            .unwrap_or(1);
        let (width, height) = size(columns);
        Self { what, children, room, width, height, columns, cell }
    }

    /// Returns width and height.
    pub(super) const fn size(&self) -> (f64, f64) {
        (self.width, self.height)
    }

    /// Places all boxes, outer ones first.
    pub(super) fn place(&self, x: f64, y: f64, show: &mut impl FnMut(&T, BoxPlace)) {
        self.place_as(x, y, self.width, self.height, show);
    }

    /// Children are stretched to the size of the largest, so that rows and columns align.
    fn place_as(
        &self,
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        show: &mut impl FnMut(&T, BoxPlace),
    ) {
        show(&self.what, BoxPlace { x, y, width, height });
        let columns = self.columns as f64;
        let cell_width = if self.room.fills {
            (width - 2.0 * self.room.edge - (columns - 1.0) * self.room.gap) / columns
        } else {
            self.cell.0
        };
        for (index, child) in self.children.iter().enumerate() {
            let (row, column) = (index / self.columns, index % self.columns);
            let left = x + self.room.edge + column as f64 * (cell_width + self.room.gap);
            let top = y + self.room.header + row as f64 * (self.cell.1 + self.room.gap);
            let is_leaf = child.children.is_empty();
            let (width, height) = if is_leaf { child.size() } else { (cell_width, self.cell.1) };
            child.place_as(left, top, width, height, show);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room =
        Room { header: 10.0, edge: 5.0, gap: 1.0, least_width: 0.0, shape: 2.0, fills: false };

    fn leaves(count: usize) -> Vec<Boxed<usize>> {
        (0..count).map(|number| Boxed::leaf(number, 10.0, 10.0)).collect()
    }

    #[test]
    fn children_lie_within_and_apart() {
        for count in 1..40 {
            let outer = Boxed::around(usize::MAX, leaves(count), ROOM);
            let mut places = Vec::new();
            outer.place(3.0, 4.0, &mut |_, place| places.push(place));
            let (frame, inner) = places.split_first().unwrap();
            assert_eq!((inner.len(), frame.x, frame.y), (count, 3.0, 4.0));
            for (index, a) in inner.iter().enumerate() {
                assert!(a.x >= frame.x + 5.0 && a.y >= frame.y + 10.0);
                assert!(a.x + a.width <= frame.x + frame.width - 5.0 + 1e-9);
                assert!(a.y + a.height <= frame.y + frame.height - 5.0 + 1e-9);
                for b in &inner[..index] {
                    assert!(a.x >= b.x + b.width || a.y >= b.y + b.height || b.x >= a.x + a.width);
                }
            }
        }
    }

    #[test]
    fn the_shape_is_near_the_one_wanted() {
        let (width, height) = Boxed::around(0, leaves(8), ROOM).size();
        assert_eq!((width, height), (4.0 * 10.0 + 3.0 + 10.0, 2.0 * 10.0 + 1.0 + 15.0));
    }

    #[test]
    fn a_label_keeps_its_width_and_children_fill_it() {
        let room = Room { least_width: 200.0, fills: true, ..ROOM };
        let inner = Boxed::around(1, leaves(1), ROOM);
        let outer = Boxed::around(0, vec![inner], room);
        let mut widths = Vec::new();
        outer.place(0.0, 0.0, &mut |_, place| widths.push(place.width));
        assert_eq!(widths, [200.0, 190.0, 10.0]);
    }
}
