package csi

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/structs"
)

// uncertain are the codes after which the operation may still be running or may have taken effect (CSI spec,
// "Timeouts" and "Error Scheme"). Besides the usual ones these are ResourceExhausted, which the transport
// also produces for a message that is too large, and Unknown, which covers faults between client and plugin.
var uncertain = []codes.Code{
	codes.Canceled,
	codes.DeadlineExceeded,
	codes.Unavailable,
	codes.Aborted,
	codes.ResourceExhausted,
	codes.Unknown,
}

// callError is the root of the errors of this package: the facts beyond kind and text.
type callError struct {
	code      codes.Code // OK: the plugin answered, and the answer is malformed
	malformed bool
	unsent    bool // no connection: the plugin has not seen the call
	lost      bool // the connection ended before the answer
	text      string
}

func (e *callError) Error() string { return e.text }

// Lost is for the function Lost.
func (e *callError) Lost() bool { return e.lost }

// Unsent is for the function Unsent.
func (e *callError) Unsent() bool { return e.unsent }

// Code names the gRPC code of a failed call ("NotFound", "Aborted", ...). It is "" if no plugin rejected: for
// a malformed answer, a request that was never sent, an error from elsewhere.
func Code(err error) string {
	var e *callError
	if !errors.As(err, &e) || e.malformed {
		return ""
	}
	return e.code.String()
}

// Unsent reports whether a call surely did not reach the plugin: nothing listened.
func Unsent(err error) bool {
	var e interface {
		error
		Unsent() bool
	}
	return errors.As(err, &e) && e.Unsent()
}

// Lost reports whether the connection ended before the plugin answered a call that it may have got: its
// process may have ended.
func Lost(err error) bool {
	var e interface {
		error
		Lost() bool
	}
	return errors.As(err, &e) && e.Lost()
}

// Final reports whether the failed call surely did not and will not take effect. A call that is not final has
// to be repeated with the same arguments, or undone, before its object may be deleted. A malformed answer is
// not final. The kind decides for an error from elsewhere. Nil is final.
func Final(err error) bool {
	if err == nil {
		return true
	}
	var e *callError
	if !errors.As(err, &e) {
		return structs.KindOf(err).Final()
	}
	return !e.malformed && !slices.Contains(uncertain, e.code)
}

// classify turns the error of a call into one with a kind.
func (c *Client) classify(rpc string, err error, reply answer, secrets map[string]string) error {
	st := status.Convert(err)
	text := sanitize(st.Message(), secrets)
	if text == "" {
		text = "no message"
	}

	root := &callError{
		code:   st.Code(),
		text:   text,
		unsent: reply.unsent(),
		lost:   reply.lost(st.Code()),
	}

	kind := structs.KindFromGRPC(uint32(st.Code()))
	rejected := structs.Errorf(kind, "%s: %s: %s: %w",
		c.pluginTitle(), rpc, st.Code(), root)
	var e *structs.Error
	// The code is a field of the outer error, too: only that crosses the wire to the servers.
	if errors.As(rejected, &e) {
		e.Code = st.Code().String()
	}

	return rejected
}

// sanitize makes a plugin's message safe for a log or a terminal: without secrets and control characters, and
// of bounded length.
func sanitize(text string, secrets map[string]string) string {
	// The secrets go before the text is cut, because the cut could leave a part of one.
	for _, v := range longestFirst(secrets) {
		text = strings.ReplaceAll(text, v, structs.Redacted)
	}

	// A terminal would obey control characters.
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
	if len(text) > structs.MaxCSIErrorText {
		// The cut may be inside of a character; ToValidUTF8 removes its rest.
		text = strings.ToValidUTF8(text[:structs.MaxCSIErrorText], "") + " ..."
	}

	return strings.TrimSpace(text)
}

// longestFirst lists the secret values to redact, so that one that contains another is redacted completely.
// Values of one or two characters would destroy the text and hide nothing.
func longestFirst(secrets map[string]string) []string {
	var values []string
	for _, v := range secrets {
		if len(v) > 2 {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, func(a, b string) int {
		return len(b) - len(a)
	})
	return values
}
