//! What a durable subscription holds.

use antiphon::Instant;
use antiphon::durable::{
    Command, DurableEntry, DurableMethod, DurableRequest, DurableSettings, DurableTopic,
    DurableTopics, MemoryStore, MessageData, Start, Wall,
};
use antiphon_test_support::heap::measured;

fn hub() -> DurableTopics<()> {
    let mut settings = DurableSettings::new();
    settings.start = Start::EarliestRetained;
    let mut topics = DurableTopics::new(settings);
    topics.handle_timeout(Instant::ZERO, Wall::from_millis(0));
    topics
}

fn call(
    topics: &mut DurableTopics<()>,
    store: &mut MemoryStore,
    method: DurableMethod,
    entry: DurableEntry,
) {
    let params = method.write(&[entry]);
    let request = DurableRequest::parse(method, Some(params.as_json())).unwrap();
    topics.handle_request(1, request, ());
    store.run(topics);
    let answer = topics.poll_answer().unwrap();
    assert!(answer.reply.is_ok());
    if let Some(opens) = answer.opens {
        topics.release(opens);
    }
}

// PER-17
#[test]
fn an_idle_subscription_holds_less_than_1_kib() {
    const COUNT: usize = 200;
    let topic = DurableTopic::parse("orders").unwrap();
    let mut store = MemoryStore::new(1 << 24);
    let (topics, used) = measured(|| {
        let mut topics = hub();
        topics.add_connection(1);
        for n in 0..COUNT {
            let entry = DurableEntry::subscribe(&format!("processor-{n:020}"), &topic);
            call(&mut topics, &mut store, DurableMethod::Subscribe, entry);
        }
        // Each was busy once: its whole window was full.
        for _ in 0..300 {
            let data = MessageData::write(&"x".repeat(20)).unwrap();
            topics.publish(&topic, data, None).unwrap();
            store.run(&mut topics);
            topics.poll_published().unwrap();
        }
        loop {
            while let Some(sent) = topics.poll_delivery(1) {
                let entry = DurableEntry::acknowledge(&sent.subscription, sent.record.sequence);
                call(&mut topics, &mut store, DurableMethod::Acknowledge, entry);
            }
            store.run(&mut topics);
            if topics.poll_ready().is_none() {
                break;
            }
        }
        assert_eq!(topics.lag(&format!("processor-{:020}", 7)), Some(0));
        // What the store holds is not what the machine holds.
        store = MemoryStore::new(0);
        topics
    });
    let each = usize::try_from(used.left.max(0)).unwrap() / COUNT;
    assert!((100..=1024).contains(&each), "{each}");
    assert_eq!(topics.subscriptions(), COUNT);
}

// PER-17
#[test]
fn a_consumer_that_is_far_behind_holds_no_more_than_one_that_is_up_to_date() {
    let topic = DurableTopic::parse("orders").unwrap();
    let peak = |behind: u64| {
        let mut store = MemoryStore::new(1 << 30);
        let append = Command::Append {
            topic: "orders".into(),
            at: Wall::from_millis(0),
            data: MessageData::write(&7).unwrap(),
            dedupe: None,
        };
        for _ in 0..behind {
            store.execute(&append).unwrap();
        }
        let (_, used) = measured(|| {
            let mut topics = hub();
            topics.add_connection(1);
            let entry = DurableEntry::subscribe("mine", &topic);
            call(&mut topics, &mut store, DurableMethod::Subscribe, entry);
            let mut sent = 0;
            loop {
                while topics.poll_delivery(1).is_some() {
                    sent += 1;
                }
                store.run(&mut topics);
                if topics.poll_ready().is_none() {
                    break;
                }
            }
            assert_eq!(sent, behind.min(256));
            topics
        });
        used.most
    };
    let (near, far) = (peak(256), peak(1_000_000));
    println!("at most {near} bytes with 256 messages waiting, {far} with a million");
    assert!(far <= near, "{far} {near}");
}
