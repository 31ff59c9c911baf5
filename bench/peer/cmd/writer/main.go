// Command writer is the task of the end-to-end rows: it writes the time, in nanoseconds since 1970, to a file
// and waits until it is told to end.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: writer FILE"))
	}
	// The name appears when the content is complete.
	part := os.Args[1] + ".part"
	if err := os.WriteFile(part, fmt.Append(nil, time.Now().UnixNano()), 0o644); err != nil {
		fail(err)
	}
	if err := os.Rename(part, os.Args[1]); err != nil {
		fail(err)
	}
	<-told
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "writer:", err)
	os.Exit(1)
}
