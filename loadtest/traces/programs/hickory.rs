// Lookups with hickory-resolver; KIND NAME TIMES SECONDS
use hickory_resolver::proto::rr::RecordType;
use hickory_resolver::TokioResolver;
use std::time::Duration;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (kind, name) = (args[1].as_str(), args[2].as_str());
    let pause: f64 = args[4].parse().unwrap();
    let resolver = TokioResolver::builder_tokio().unwrap().build().unwrap();
    for number in 0..args[3].parse::<u32>().unwrap() {
        if number > 0 {
            tokio::time::sleep(Duration::from_secs_f64(pause)).await;
        }
        println!("begin");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let found = match kind {
            "host" => resolver
                .lookup_ip(name)
                .await
                .map(|all| all.iter().map(|each| each.to_string()).collect::<Vec<_>>()),
            "ptr" => resolver
                .reverse_lookup(name.parse::<std::net::IpAddr>().unwrap())
                .await
                .map(|all| all.answers().iter().map(|each| each.data.to_string()).collect()),
            _ => resolver
                .lookup(name, if kind == "srv" { RecordType::SRV } else { RecordType::TXT })
                .await
                .map(|all| all.answers().iter().map(|each| each.data.to_string().replace(' ', "_")).collect()),
        };
        match found {
            Ok(all) => println!("ok {}", all.join(" ")),
            Err(error) => println!("error {}", error.to_string().split(" for Query").next().unwrap()),
        }
    }
}
