// libjsonrpccpp, which speaks over HTTP and Unix sockets, a connection a call:
//
//   jsonrpccpp server http PORT | unix PATH       prints "listening" once it does
//   jsonrpccpp client http URL | unix PATH POINTS…
//
// It has no means to cancel and none to call back. The port is the caller's choice.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <jsonrpccpp/client.h>
#include <jsonrpccpp/client/connectors/httpclient.h>
#include <jsonrpccpp/client/connectors/unixdomainsocketclient.h>
#include <jsonrpccpp/server.h>
#include <jsonrpccpp/server/connectors/httpserver.h>
#include <jsonrpccpp/server/connectors/unixdomainsocketserver.h>
#include <unistd.h>

using namespace jsonrpc;
using Json::Value;

namespace {

constexpr unsigned TIME_MAX = 25;

Value list(std::initializer_list<Value> items) {
  Value all(Json::arrayValue);
  for (const Value &item : items) all.append(item);
  return all;
}

Value failure() {
  Value error;
  error["code"] = 7;
  error["message"] = "failed";
  error["data"]["x"] = list({1, "é€"});
  return error;
}

// -- the server

class Service : public AbstractServer<Service> {
public:
  explicit Service(AbstractServerConnector &connector) : AbstractServer<Service>(connector) {
    // Without declared params its library hands them over unchecked.
    method("subtract", &Service::subtract);
    method("echo", &Service::echo);
    method("fail", &Service::fail);
    method("sleep", &Service::sleep);
    method("count", &Service::count);
    bindAndAddNotification(Procedure("update", PARAMS_BY_NAME, nullptr), &Service::update);
  }

private:
  std::atomic<int> counted{0};

  void method(const char *name, methodPointer_t run) {
    bindAndAddMethod(Procedure(name, PARAMS_BY_NAME, JSON_STRING, nullptr), run);
  }

  void subtract(const Value &params, Value &result) {
    if (params.isArray()) {
      result = params[0].asInt() - params[1].asInt();
    } else {
      result = params["minuend"].asInt() - params["subtrahend"].asInt();
    }
  }

  void echo(const Value &params, Value &result) { result = params; }

  void fail(const Value &params, Value &) {
    throw JsonRpcException(params["code"].asInt(), params["message"].asString(), params["data"]);
  }

  void sleep(const Value &params, Value &result) {
    std::this_thread::sleep_for(std::chrono::milliseconds(params[0].asInt()));
    result = "slept";
  }

  void count(const Value &, Value &result) { result = counted.load(); }

  void update(const Value &) { ++counted; }
};

int serve(const std::string &kind, const std::string &place) {
  std::unique_ptr<AbstractServerConnector> connector;
  if (kind == "http") {
    // A thread closes what it accepts beyond its share of 1020 connections, unread. With nine any of them may hold the
    // hundred that are made at once.
    connector.reset(new HttpServer(std::stoi(place), "", "", 9));
  } else {
    connector.reset(new UnixDomainSocketServer(place));
  }
  Service service(*connector);
  if (!service.StartListening()) {
    std::cerr << "cannot listen" << std::endl;
    return 1;
  }
  std::cout << "listening" << std::endl;
  // It is ended by a signal.
  for (;;) pause();
}

// -- the client

class Peer {
public:
  Peer(const std::string &kind, const std::string &place) {
    if (kind == "http") {
      connector.reset(new HttpClient(place));
    } else {
      connector.reset(new UnixDomainSocketClient(place));
    }
    client.reset(new Client(*connector));
  }
  Client *operator->() { return client.get(); }

private:
  std::unique_ptr<IClientConnector> connector;
  std::unique_ptr<Client> client;
};

void expect(bool held, const std::string &what) {
  if (!held) throw std::runtime_error("it did not hold: " + what);
}

int code_of(Peer &peer, const std::string &method, const Value &params, Value *data = nullptr) {
  try {
    peer->CallMethod(method, params);
  } catch (const JsonRpcException &error) {
    if (data) *data = error.GetData();
    return error.GetCode();
  }
  return 0;
}

void batch(Peer &peer) {
  BatchCall calls;
  Value difference = calls.addCall("subtract", list({5, 3}));
  calls.addCall("update", list({1}), true);
  Value nope = calls.addCall("nope", list({}));
  Value echo = calls.addCall("echo", list({"é"}));
  BatchResponse answers = peer->CallProcedures(calls);
  expect(answers.getResult(difference) == 2, "the difference");
  expect(answers.getErrorCode(nope) == -32601, "nope");
  expect(answers.getResult(echo) == list({"é"}), "the echo");
}

void order(const std::string &kind, const std::string &place) {
  std::mutex lock;
  std::vector<int> ended;
  std::vector<std::string> failed;
  std::vector<std::thread> threads;
  auto one = [&](int number, const char *method, int param, Value wanted) {
    Value result;
    std::string why;
    try {
      Peer peer(kind, place);
      result = peer->CallMethod(method, list({param}));
      if (result != wanted) why = "another answer";
    } catch (const std::exception &error) {
      why = error.what();
    }
    std::lock_guard<std::mutex> guard(lock);
    ended.push_back(number);
    if (!why.empty()) failed.push_back(why);
  };
  for (int i = 0; i < 50; ++i) {
    threads.emplace_back(one, 2 * i, "sleep", 800 - 16 * i, "slept");
    threads.emplace_back(one, 2 * i + 1, "echo", i, list({i}));
  }
  for (std::thread &thread : threads) thread.join();
  expect(failed.empty(), failed.empty() ? "" : failed[0]);
  expect(ended[0] != 0, "answered in the order of the calls");
}

void point(const std::string &name, const std::string &kind, const std::string &place) {
  Peer peer(kind, place);
  if (name == "position") {
    expect(peer->CallMethod("subtract", list({42, 23})) == 19, name);
  } else if (name == "name") {
    Value params;
    params["minuend"] = 42;
    params["subtrahend"] = 23;
    expect(peer->CallMethod("subtract", params) == 19, name);
  } else if (name == "error") {
    Value data;
    expect(code_of(peer, "fail", failure(), &data) == 7 && data == failure()["data"], name);
    expect(code_of(peer, "nope", list({})) == -32601, name);
  } else if (name == "notification") {
    int before = peer->CallMethod("count", list({})).asInt();
    for (int i = 0; i < 3; ++i) peer->CallNotification("update", list({i}));
    while (peer->CallMethod("count", list({})).asInt() != before + 3) usleep(10000);
  } else if (name == "batch") {
    batch(peer);
  } else if (name == "order") {
    order(kind, place);
  } else if (name == "text") {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "äß€😀";
    expect(peer->CallMethod("echo", list({text})) == list({text}), name);
  } else {
    throw std::runtime_error("it has no " + name);
  }
  std::cout << "seen " << name << std::endl;
}

} // namespace

int main(int count, char **words) {
  std::string role = count > 3 ? words[1] : "";
  if (role == "server") return serve(words[2], words[3]);
  if (role != "client") {
    std::cerr << "usage: jsonrpccpp server|client http|unix PLACE POINTS…" << std::endl;
    return 2;
  }
  alarm(TIME_MAX);
  try {
    for (int i = 4; i < count; ++i) point(words[i], words[2], words[3]);
  } catch (const std::exception &error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  std::cout << "ok" << std::endl;
}
