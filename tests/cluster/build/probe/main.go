// Command probe is the one program of the cluster's own image. Without arguments it is the pause
// container of a pod; `serve PORT` answers HTTP with the host's name, `fetch URL` prints what a URL
// answers, `fail` exits with 1.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	command, value := "", ""
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	if len(os.Args) > 2 {
		value = os.Args[2]
	}
	switch command {
	case "serve":
		go serve(value)
		pause()
	case "fetch":
		fetch(value)
	case "fail":
		fmt.Println("failing, as asked")
		os.Exit(1)
	default:
		pause()
	}
}

// pause waits to be told to end, and reaps what a shared process namespace leaves to PID 1.
func pause() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func serve(port string) {
	handler := func(answer http.ResponseWriter, _ *http.Request) {
		name, _ := os.Hostname()
		fmt.Fprintln(answer, name)
	}
	fmt.Println("serving on port", port)
	fmt.Println(http.ListenAndServe(":"+port, http.HandlerFunc(handler)))
	os.Exit(1)
}

// fetch checks no certificate: it asks whether an address answers, not who answers.
func fetch(url string) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := http.Client{Timeout: 5 * time.Second, Transport: transport}
	answer, err := client.Get(url)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("status", answer.StatusCode)
	io.Copy(os.Stdout, answer.Body)
}
