//! Messages that a program receives from an inbox, on threads.

use antiphon_blocking::{Closed, Config, InboxEvent, Link, Report, attach, inbox};

// USE-19
#[test]
fn messages_are_received_in_order_and_the_end_comes_last() {
    let (near, far) = Link::pair();
    let near = attach(near, Config::new(), ()).unwrap();
    let (_far, mut inbox) = inbox(far, Config::new()).unwrap();
    let asked = near.call("ask", &[1]).start().wait().unwrap();
    near.notify("tell", ()).wait().unwrap();
    let Some(InboxEvent::Request(request)) = inbox.recv().wait() else {
        panic!("a request is next");
    };
    assert_eq!(request.params::<[u8; 1]>().unwrap(), [1]);
    let Some(InboxEvent::Notification(notification)) = inbox.recv().wait() else {
        panic!("a notification is next");
    };
    assert_eq!(notification.method(), "tell");
    assert_eq!(notification.params::<u8>().unwrap_err().code(), -32602);
    let Some(InboxEvent::Report(Report::InvalidParams(about, why))) = inbox.recv().wait() else {
        panic!("what was wrong with the params is next");
    };
    assert_eq!((&*about.method, about.id), ("tell", None));
    assert!(why.detail().to_string().contains("null"), "{why}");
    assert!(inbox.try_recv().is_none());
    request.answer(Ok("yes".into())).unwrap();
    assert_eq!(asked.wait::<String>().unwrap(), "yes");
    drop(near);
    let Some(InboxEvent::Closed(Closed::EndOfInput)) = inbox.recv().wait() else {
        panic!("the end is next");
    };
    assert!(inbox.recv().wait().is_none());
}
