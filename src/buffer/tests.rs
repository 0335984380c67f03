use super::{QUIET_TURNS, ReadBuffer, STORAGE_BYTES_FIRST, STORAGE_BYTES_KEPT};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::collection::vec as vec_of;
use proptest::prelude::{any, proptest};

/// Reads at most `max` bytes of the stream 0, 1, 2, … into the buffer, as a socket would.
fn read(buf: &mut ReadBuffer, next: &mut u8, max: usize) -> usize {
    let spare = buf.spare();
    let n = spare.len().min(max);
    for byte in &mut spare[..n] {
        *byte = *next;
        *next = next.wrapping_add(1);
    }
    buf.advance(n);
    n
}

// An idle connection is small.
#[test]
fn nothing_is_allocated_before_the_first_read_and_little_then() {
    let mut buf = ReadBuffer::new(1 << 20);
    assert_eq!((buf.capacity(), buf.len(), buf.filled()), (0, 0, &b""[..]));
    for _ in 0..100 {
        read(&mut buf, &mut 0, 300);
        buf.consume(300);
    }
    assert_eq!(buf.capacity(), STORAGE_BYTES_FIRST);
    assert_eq!(buf.max_capacity(), 1 << 20);
}

#[test]
fn it_grows_by_doubling_up_to_its_capacity_and_no_further() {
    let mut buf = ReadBuffer::new(100_000);
    let mut next = 0;
    let mut sizes = Vec::new();
    while read(&mut buf, &mut next, usize::MAX) > 0 {
        sizes.push(buf.capacity());
    }
    assert_eq!(sizes, [4096, 8192, 16384, 32768, 65536, 100_000]);
    assert_eq!(buf.len(), 100_000);
    assert!(buf.spare().is_empty());
    buf.consume(1);
    assert_eq!(buf.spare().len(), 1);
}

#[test]
fn a_small_capacity_is_kept_to() {
    for capacity in 0..40 {
        let mut buf = ReadBuffer::new(capacity);
        assert_eq!(read(&mut buf, &mut 0, usize::MAX), capacity);
        assert_eq!(buf.spare().len(), 0);
        assert_eq!(buf.capacity(), capacity);
    }
}

#[test]
fn numbers_out_of_range_saturate() {
    let mut buf = ReadBuffer::new(10);
    buf.advance(5);
    buf.consume(usize::MAX);
    assert!(buf.is_empty());
    buf.spare();
    buf.advance(usize::MAX);
    assert_eq!(buf.len(), 10);
    buf.consume(4);
    buf.advance(1);
    assert_eq!(buf.len(), 6);
    buf.consume(usize::MAX);
    assert!(buf.is_empty());
    assert_eq!(buf.spare().len(), 10);
}

#[test]
fn reads_that_fill_their_space_get_more_of_it_up_to_a_bound() {
    let mut buf = ReadBuffer::new(1 << 20);
    for _ in 0..20 {
        let n = read(&mut buf, &mut 0, usize::MAX);
        buf.consume(n);
    }
    assert_eq!(buf.capacity(), STORAGE_BYTES_KEPT);
}

#[test]
fn after_a_burst_the_storage_is_given_up_in_time() {
    let mut buf = ReadBuffer::new(1 << 20);
    while read(&mut buf, &mut 0, usize::MAX) > 0 {}
    buf.consume(1 << 20);
    for _ in 0..QUIET_TURNS {
        assert_eq!(buf.capacity(), 1 << 20);
        read(&mut buf, &mut 0, 300);
        buf.consume(300);
    }
    assert_eq!(buf.capacity(), 0);
    read(&mut buf, &mut 0, 300);
    assert_eq!(buf.capacity(), STORAGE_BYTES_FIRST);
}

#[test]
fn a_new_storage_is_as_large_as_the_quiet_turns_needed() {
    let mut buf = ReadBuffer::new(1 << 20);
    while read(&mut buf, &mut 0, usize::MAX) > 0 {}
    buf.consume(1 << 20);
    for turn in 0..QUIET_TURNS {
        let n = if turn == 3 { 100_000 } else { 300 };
        read(&mut buf, &mut 0, n);
        buf.consume(n);
    }
    assert_eq!(buf.capacity(), 0);
    assert_eq!(buf.spare().len(), 128 * 1024);
}

#[test]
fn room_is_made_by_moving_where_that_is_paid_for() {
    let mut buf = ReadBuffer::new(1 << 20);
    // A frame and a half in each read: the buffer never runs empty.
    read(&mut buf, &mut 0, 150);
    for _ in 0..1000 {
        buf.consume(100);
        while buf.len() < 150 {
            let missing = 150 - buf.len();
            read(&mut buf, &mut 0, missing);
        }
    }
    assert_eq!(buf.capacity(), STORAGE_BYTES_FIRST);
    // 100 000 bytes passed through the buffer. At most 150 were moved each time that its 4096
    // bytes had been filled.
    assert!(buf.bytes_moved < 100_000 / 20);
}

#[test]
fn regular_large_messages_keep_their_storage() {
    let mut buf = ReadBuffer::new(1 << 20);
    for turn in 0..100 {
        let want = if turn % 10 == 0 { 1 << 19 } else { 300 };
        while buf.len() < want {
            let missing = want - buf.len();
            read(&mut buf, &mut 0, missing);
        }
        assert!(buf.capacity() >= 1 << 19, "turn {turn}");
        buf.consume(want);
    }
}

#[test]
fn release_frees_an_empty_buffer_only() {
    let mut buf = ReadBuffer::new(1 << 20);
    read(&mut buf, &mut 7, 2);
    buf.release();
    assert_eq!(buf.filled(), [7, 8]);
    buf.consume(2);
    buf.release();
    assert_eq!((buf.capacity(), buf.max_capacity()), (0, 1 << 20));
    assert_eq!(read(&mut buf, &mut 0, 5), 5);
}

// TRN-10, STD-08: compaction does not become quadratic, whatever the size of frames and reads.
#[test]
fn a_driver_that_consumes_whole_frames_moves_each_byte_a_bounded_number_of_times() {
    for frame in [1, 7, 100, 1000, 4095, 4096, 5000, 65_535] {
        for per_read in [1, 13, 1500, usize::MAX] {
            let mut buf = ReadBuffer::new(65_536);
            let (mut next, mut total) = (0, 0_u64);
            while total < 400_000 {
                total += read(&mut buf, &mut next, per_read) as u64;
                while buf.len() >= frame {
                    buf.consume(frame);
                }
            }
            let moved = buf.bytes_moved;
            assert!(
                moved <= 2 * total,
                "{frame} by {per_read}: {moved} of {total}"
            );
        }
    }
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in(
        capacity in 0..20_000_usize,
        steps in vec_of((0..9_000_usize, 0..9_000_usize, any::<bool>()), 0..60),
    ) {
        let mut buf = ReadBuffer::new(capacity);
        let mut twin = VecDeque::new();
        let mut next = 0;
        for (reads, consumes, release) in steps {
            let before = next;
            let n = read(&mut buf, &mut next, reads);
            assert!(n > 0 || reads == 0 || twin.len() == capacity);
            twin.extend((0..n).map(|i| before.wrapping_add(i as u8)));
            assert_eq!(buf.filled(), twin.make_contiguous());
            buf.consume(consumes);
            twin.drain(..consumes.min(twin.len()));
            if release {
                buf.release();
            }
            assert_eq!(buf.filled(), twin.make_contiguous());
            assert!(buf.capacity() <= capacity);
            assert_eq!((buf.len(), buf.is_empty()), (twin.len(), twin.is_empty()));
        }
    }
}
