// sourcegraph/jsonrpc2, a two-way library for Go, over TCP and WebSocket:
//
//	go_sourcegraph server tcp+lsp|ws                prints its port
//	go_sourcegraph client tcp+lsp|ws PORT POINTS…
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/sourcegraph/jsonrpc2"
	ws "github.com/sourcegraph/jsonrpc2/websocket"
)

const timeMax = 25 * time.Second

type any = interface{}

var failure = map[string]any{
	"code": 7.0, "message": "failed", "data": map[string]any{"x": []any{1.0, "é€"}}}

// -- what it answers, as a server and, with `who`, as a client

var counted int64

func handle(ctx context.Context, conn *jsonrpc2.Conn, request *jsonrpc2.Request) (any, error) {
	invalid := &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: "Invalid params"}
	var params any
	if request.Params != nil {
		if json.Unmarshal(*request.Params, &params) != nil {
			return nil, invalid
		}
	}
	list, _ := params.([]any)
	switch request.Method {
	case "subtract":
		if named, ok := params.(map[string]any); ok {
			list = []any{named["minuend"], named["subtrahend"]}
		}
		return list[0].(float64) - list[1].(float64), nil
	case "echo":
		return params, nil
	case "fail":
		failed := new(jsonrpc2.Error)
		if json.Unmarshal(*request.Params, failed) != nil {
			return nil, invalid
		}
		return nil, failed
	case "sleep":
		time.Sleep(time.Duration(list[0].(float64)) * time.Millisecond)
		return "slept", nil
	case "update":
		atomic.AddInt64(&counted, 1)
		return nil, nil
	case "count":
		return atomic.LoadInt64(&counted), nil
	case "callback":
		var result any
		err := conn.Call(ctx, list[0].(string), list[1], &result)
		return result, err
	case "who":
		return []any{"me", "é€", list}, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "unknown"}
}

func talk(stream jsonrpc2.ObjectStream) *jsonrpc2.Conn {
	handler := jsonrpc2.AsyncHandler(jsonrpc2.HandlerWithError(handle).SuppressErrClosed())
	return jsonrpc2.NewConn(context.Background(), stream, handler)
}

func serve(kind string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	if kind == "ws" {
		upgrader := websocket.Upgrader{}
		must(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			socket, err := upgrader.Upgrade(w, r, nil)
			must(err)
			<-talk(ws.NewObjectStream(socket)).DisconnectNotify()
		})))
	}
	for {
		conn, err := listener.Accept()
		must(err)
		talk(jsonrpc2.NewBufferedStream(conn, jsonrpc2.VSCodeObjectCodec{}))
	}
}

// -- the points

func client(kind, port string, points []string) {
	time.AfterFunc(timeMax, func() { log.Fatal("timed out") })
	var conn *jsonrpc2.Conn
	if kind == "ws" {
		socket, _, err := websocket.DefaultDialer.Dial("ws://127.0.0.1:"+port+"/", nil)
		must(err)
		conn = talk(ws.NewObjectStream(socket))
	} else {
		socket, err := net.Dial("tcp", "127.0.0.1:"+port)
		must(err)
		conn = talk(jsonrpc2.NewBufferedStream(socket, jsonrpc2.VSCodeObjectCodec{}))
	}
	for _, point := range points {
		steps[point](conn)
		fmt.Println("seen", point)
	}
	must(conn.Close())
	fmt.Println("ok")
}

var steps = map[string]func(*jsonrpc2.Conn){
	"position": func(conn *jsonrpc2.Conn) { same(call(conn, "subtract", []int{42, 23}), 19.0) },
	"name": func(conn *jsonrpc2.Conn) {
		same(call(conn, "subtract", map[string]int{"subtrahend": 23, "minuend": 42}), 19.0)
	},
	"error":        failed,
	"notification": notify,
	"order":        order,
	"text": func(conn *jsonrpc2.Conn) {
		long := []any{strings.Repeat("äß€😀", 100000)}
		if !reflect.DeepEqual(call(conn, "echo", long), long) {
			log.Fatal("the text is another")
		}
	},
	"back": func(conn *jsonrpc2.Conn) {
		answer := call(conn, "callback", []any{"who", []any{"q"}})
		same(answer, []any{"me", "é€", []any{"q"}})
	},
}

func call(conn *jsonrpc2.Conn, method string, params any) any {
	var result any
	must(conn.Call(context.Background(), method, params, &result))
	return result
}

func failed(conn *jsonrpc2.Conn) {
	err, ok := conn.Call(context.Background(), "fail", failure, nil).(*jsonrpc2.Error)
	if !ok {
		log.Fatal("no error came")
	}
	text, _ := json.Marshal(err)
	var got any
	must(json.Unmarshal(text, &got))
	same(got, any(failure))
	err, ok = conn.Call(context.Background(), "nope", []int{}, nil).(*jsonrpc2.Error)
	if !ok || err.Code != jsonrpc2.CodeMethodNotFound {
		log.Fatal("nope was found")
	}
}

func notify(conn *jsonrpc2.Conn) {
	before := call(conn, "count", []int{}).(float64)
	for i := 0; i < 3; i++ {
		must(conn.Notify(context.Background(), "update", []int{i}))
	}
	// The whole run has a deadline.
	for call(conn, "count", []int{}).(float64) != before+3 {
		time.Sleep(10 * time.Millisecond)
	}
}

func order(conn *jsonrpc2.Conn) {
	ended := make(chan int, 100)
	one := func(place int, method string, param int, wanted any) {
		same(call(conn, method, []int{param}), wanted)
		ended <- place
	}
	for i := 0; i < 50; i++ {
		go one(2*i, "sleep", 400-8*i, "slept")
		go one(2*i+1, "echo", i, []any{float64(i)})
	}
	for place := 0; place < 100; place++ {
		if <-ended == 0 && place == 0 {
			log.Fatal("answered in the order of the calls")
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func same(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		log.Fatalf("%v instead of %v", got, wanted)
	}
}

func main() {
	words := os.Args[1:]
	if len(words) == 2 && words[0] == "server" {
		serve(words[1])
	} else if len(words) > 3 && words[0] == "client" {
		client(words[1], words[2], words[3:])
	} else {
		log.Fatal("usage: go_sourcegraph server KIND | client KIND PORT POINTS…")
	}
}
