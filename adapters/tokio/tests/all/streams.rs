//! How a task uses its stream: a write that waits too long is given up. In virtual time.

use std::io;
use std::time::Duration;

use crate::support::Raw;
use antiphon::{Closed, Config};
use antiphon_net::duplex;
use antiphon_tokio::{Link, drive};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);

// TRN-07 SEC-10
#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_room_is_given_up_after_its_time() {
    let line = r#"{"jsonrpc":"2.0","method":"n"}"#.len() + 1;
    // A stream that is not read, and one that is read a little.
    for read in [0, 3] {
        let mut config = Config::new();
        config.timeouts.write_timeout = Some(30 * SECOND);
        let (near, far) = duplex(line);
        let (peer, driver) = drive(Link::new(near), config, ());
        let driver = tokio::spawn(driver);
        let mut far = Raw::new(far);
        // The write timeout does not run while nothing waits to be written, whether the last message
        // was written at once or after a wait.
        for waits in [false, true] {
            peer.notify("n", ()).await.unwrap();
            if waits {
                sleep(20 * SECOND).await;
                far.io_read(line).await;
            }
            sleep(100 * SECOND).await;
            assert!(!driver.is_finished(), "{read} {waits}");
        }
        peer.notify("n", ()).await.unwrap();
        let start = Instant::now();
        sleep(20 * SECOND).await;
        // If a part is written, the timeout begins again.
        far.io_read(read).await;
        let ended = timeout(LONG, driver).await.expect("an end").unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        // After the timeout of 30 s, input is read for another second, and closing the stream may take
        // one more.
        let span = if read > 0 { 52 } else { 32 };
        assert_eq!(start.elapsed(), span * SECOND, "{read}");
        assert!(matches!(
            peer.wait_closed(SECOND).await,
            Some(Closed::Local(_))
        ));
        drop(far);
    }
}
