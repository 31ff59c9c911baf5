package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
)

// output is what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // gets a value at each write, and holds one
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.text.Write(p)
	select {
	case o.more <- struct{}{}:
	default:
	}
	return n, err
}

// wait returns the whole output once it has a text.
func (o *output) wait(ctx context.Context, text string) (string, error) {
	for {
		o.mu.Lock()
		got := o.text.String()
		o.mu.Unlock()
		if strings.Contains(got, text) {
			return got, nil
		}

		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the output has no %q: %s", text, got)
		case <-o.more:
		}
	}
}
