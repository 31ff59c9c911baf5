// Package netfault says in plain words why an address could not be reached: errors of the network library
// name system calls.
package netfault

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// fault is an error of the network in plain words.
type fault struct {
	text string
	err  error
}

// Error says it in plain words.
func (f *fault) Error() string { return f.text }

// Unwrap returns the error of the network.
func (f *fault) Unwrap() error { return f.err }

// Plain returns err with a text in plain words, or err itself where it is no error of the network that is
// known here. The text continues a sentence about an address.
func Plain(err error) error {
	text := plain(err)
	if text == "" {
		return err
	}
	return &fault{text, err}
}

func plain(err error) string {
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing is listening there"
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTDOWN):
		return "there is no way to that host"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return "the connection was lost"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "the connection was lost"
	case errors.Is(err, context.Canceled):
		return "the caller gave up"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no host named " + dns.Name
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	}
	return ""
}
