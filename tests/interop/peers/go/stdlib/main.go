// Go's net/rpc/jsonrpc, which speaks JSON-RPC 1.0 over TCP:
//
//	go_stdlib server                 prints its port
//	go_stdlib client PORT POINTS…
//
// A call has one argument, and a method two words; an error is a text.
package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"strings"
	"time"
)

const timeMax = 25 * time.Second

// Peer holds the methods that it offers.
type Peer struct{}

// Numbers are the argument of Subtract.
type Numbers struct {
	Minuend    int `json:"minuend"`
	Subtrahend int `json:"subtrahend"`
}

func (Peer) Subtract(numbers Numbers, result *int) error {
	*result = numbers.Minuend - numbers.Subtrahend
	return nil
}

func (Peer) Echo(text string, result *string) error {
	*result = text
	return nil
}

func (Peer) Fail(text string, _ *string) error {
	return errors.New(text)
}

func (Peer) Sleep(millis int, result *string) error {
	time.Sleep(time.Duration(millis) * time.Millisecond)
	*result = "slept"
	return nil
}

func serve() {
	server := rpc.NewServer()
	must(server.Register(Peer{}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := listener.Accept()
		must(err)
		go server.ServeCodec(jsonrpc.NewServerCodec(conn))
	}
}

func client(port string, points []string) {
	time.AfterFunc(timeMax, func() { log.Fatal("timed out") })
	client, err := jsonrpc.Dial("tcp", "127.0.0.1:"+port)
	must(err)
	steps := map[string]func(*rpc.Client){"position": position, "order": order, "text": text}
	for _, point := range points {
		steps[point](client)
		fmt.Println("seen", point)
	}
	must(client.Close())
	fmt.Println("ok")
}

func position(client *rpc.Client) {
	var sum int
	must(client.Call("sum", 19, &sum))
	expect(sum == 19)
}

func order(client *rpc.Client) {
	done := make(chan *rpc.Call, 100)
	places := map[*rpc.Call]int{}
	for i := 0; i < 50; i++ {
		places[client.Go("sleep", 400-8*i, new(string), done)] = 2 * i
		places[client.Go("echo", i, new([]int), done)] = 2*i + 1
	}
	first := -1
	for ended := 0; ended < 100; ended++ {
		call := <-done
		must(call.Error)
		switch reply := call.Reply.(type) {
		case *string:
			expect(*reply == "slept")
		case *[]int:
			expect(len(*reply) == 1 && (*reply)[0] == places[call]/2)
		}
		if places[call] == 0 {
			first = ended
		}
	}
	expect(first > 0)
}

func text(client *rpc.Client) {
	long := strings.Repeat("äß€😀", 100000)
	var echo []string
	must(client.Call("echo", long, &echo))
	expect(len(echo) == 1 && echo[0] == long)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func expect(held bool) {
	if !held {
		log.Panic("it did not hold")
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "server" {
		serve()
	} else if len(os.Args) > 3 && os.Args[1] == "client" {
		client(os.Args[2], os.Args[3:])
	} else {
		log.Fatal("usage: go_stdlib server | client PORT POINTS…")
	}
}
