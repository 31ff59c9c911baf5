// Package netfault translates network errors for operators. The errors of the network library name system
// calls. It is small because agents, clients of the API and drivers all show such errors.
package netfault

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
)

// fault is a network error with a text in plain words.
type fault struct {
	text string
	err  error
}

// Error returns the text in plain words.
func (f *fault) Error() string {
	return f.text
}

// Unwrap returns the error of the network.
func (f *fault) Unwrap() error {
	return f.err
}

// Plain returns err with a text in plain words. It returns err itself if it is not a known network error.
// The text continues a sentence about an address.
func Plain(err error) error {
	text := plainText(err)
	if text == "" {
		return err
	}
	return &fault{text, err}
}

func plainText(err error) string {
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing is listening there"
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket"
	case isAny(err,
		syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN):
		return "there is no route to that host"
	case IsLost(err):
		return "the connection was lost"
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no host named " + dns.Name
	case errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	}

	return ""
}

// IsLost reports whether a connection that was open has ended before the answer.
func IsLost(err error) bool {
	return isAny(err, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED) ||
		isAny(err, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed)
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool {
		return errors.Is(err, target)
	})
}
