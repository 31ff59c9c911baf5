package structs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Kind is the class of an error. It is data: it crosses every wire (RPC, HTTP, exit code) unchanged, while
// the text is for users. The zero Kind means "not classified" and reads as internal.
type Kind string

// The kinds. The table below gives the form of each on each wire.
const (
	KindInvalid      Kind = "invalid"      // the unchanged request can never succeed
	KindDenied       Kind = "denied"       // the caller may not do this
	KindNotFound     Kind = "not-found"    // the object that the request names does not exist
	KindConflict     Kind = "conflict"     // it exists already with other values, or changed meanwhile
	KindPrecondition Kind = "precondition" // something else has to change first
	KindUnavailable  Kind = "unavailable"  // nothing was done; the same request may succeed later
	KindTimeout      Kind = "timeout"      // the outcome is unknown; repeat the same request
	KindInternal     Kind = "internal"     // a fault of berth or of a plugin
)

// Cause is the reason for which the servers reject a request of a node. The agent acts on it.
type Cause string

// The causes.
const (
	// CauseStaleEpoch: the node was lost and is back since the epoch of the request (see Node.Epoch). The
	// agent learns the new epoch with its next heartbeat.
	CauseStaleEpoch Cause = "stale-epoch"
	// CauseSecondAgent: another agent with the same node ID has the lease (see AgentProof).
	CauseSecondAgent Cause = "second-agent"
)

// kindRow is one line of the one table of error classes.
type kindRow struct {
	kind  Kind
	http  int
	exit  int
	grpc  []uint32 // canonical gRPC status codes that map to the kind
	final bool     // the call has not taken effect and will not
}

var kindTable = []kindRow{
	{KindInvalid, 400, 2, []uint32{3, 11}, true},
	{KindDenied, 403, 3, []uint32{7, 16}, true},
	{KindNotFound, 404, 4, []uint32{5}, true},
	{KindConflict, 409, 5, []uint32{6}, true},
	{KindPrecondition, 412, 6, []uint32{9, 12}, true},
	{KindUnavailable, 503, 7, []uint32{14, 8, 10}, false},
	{KindTimeout, 504, 8, []uint32{4, 1}, false},
	{KindInternal, 500, 1, nil, true},
}

func (k Kind) row() kindRow {
	for _, r := range kindTable {
		if r.kind == k {
			return r
		}
	}
	return kindTable[len(kindTable)-1]
}

// HTTPStatus returns the status code of an HTTP answer with this kind.
func (k Kind) HTTPStatus() int { return k.row().http }

// ExitCode returns the exit code of a command that failed with this kind.
func (k Kind) ExitCode() int { return k.row().exit }

// Final reports whether a call that failed with this kind has not taken effect and will not. For internal
// errors of a CSI plugin the csi package decides by the gRPC code (unknown outcomes are not final).
func (k Kind) Final() bool { return k.row().final }

// KindFromHTTP is the inverse of HTTPStatus; a status outside the table is internal.
func KindFromHTTP(status int) Kind {
	for _, r := range kindTable {
		if r.http == status {
			return r.kind
		}
	}
	return KindInternal
}

// KindFromGRPC maps a canonical gRPC status code (a number, so that this package needs no gRPC).
func KindFromGRPC(code uint32) Kind {
	for _, r := range kindTable {
		if slices.Contains(r.grpc, code) {
			return r.kind
		}
	}
	return KindInternal
}

// Error is an error with its class.
type Error struct {
	Kind Kind
	Text string
	// RetryAfter, set on KindUnavailable, is the minimum delay before a retry. The server is up but
	// overloaded. Zero means no hint.
	RetryAfter time.Duration
	// NotServed, set on KindUnavailable, tells that another server may serve the whole request at once. The
	// reason is one that it may not share: this server finds no leader, for example. This server has begun
	// nothing that comes out otherwise if it is done twice: at most it has written what the other one writes
	// again, such as the configuration entry of a gateway. Without it, another server may make further side
	// effects, a token in Consul for example.
	NotServed bool
	// Socket, set on KindDenied, is the path of the operator socket over which the leader takes the request.
	Socket string
	// Cause, set on KindUnavailable, tells the agent of a node why its request was rejected: see the causes.
	Cause Cause
	// Code is the name of the gRPC code of a CSI plugin's error ("NotFound", "Aborted", ...), "" if the error
	// is not from a plugin. It crosses the RPC wire with the kind.
	Code string

	err error
}

// Error returns the text alone; the kind is not part of it.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the error that Errorf wrapped with %w, if any.
func (e *Error) Unwrap() error { return e.err }

// Errorf makes an error of a kind. With %w the wrapped error stays reachable, but the given kind wins. Its
// text is cut at MaxErrorText.
func Errorf(kind Kind, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{
		Kind: kind,
		Text: Cut(err.Error(), MaxErrorText),
		err:  errors.Unwrap(err),
	}
}

// Invalidf makes an error of KindInvalid.
func Invalidf(format string, args ...any) error {
	return Errorf(KindInvalid, format, args...)
}

// InvalidAll makes one error of KindInvalid with a line for each fault, nil if there are none. It ignores nil
// faults.
func InvalidAll(faults []error) error {
	err := errors.Join(faults...)
	if err == nil {
		return nil
	}
	return Invalidf("%w", err)
}

// Deniedf makes an error of KindDenied.
func Deniedf(format string, args ...any) error {
	return Errorf(KindDenied, format, args...)
}

// NotFoundf makes an error of KindNotFound.
func NotFoundf(format string, args ...any) error {
	return Errorf(KindNotFound, format, args...)
}

// Conflictf makes an error of KindConflict.
func Conflictf(format string, args ...any) error {
	return Errorf(KindConflict, format, args...)
}

// Preconditionf makes an error of KindPrecondition.
func Preconditionf(format string, args ...any) error {
	return Errorf(KindPrecondition, format, args...)
}

// Unavailablef makes an error of KindUnavailable.
func Unavailablef(format string, args ...any) error {
	return Errorf(KindUnavailable, format, args...)
}

// Timeoutf makes an error of KindTimeout.
func Timeoutf(format string, args ...any) error {
	return Errorf(KindTimeout, format, args...)
}

// Internalf makes an error of KindInternal.
func Internalf(format string, args ...any) error {
	return Errorf(KindInternal, format, args...)
}

// KindOf returns the class of an error through any wrapping; an unclassified error is internal, nil is "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) && e.Kind != "" {
		return e.Kind
	}
	return KindInternal
}

// CodeOf returns the name of the gRPC code that a CSI plugin answered, through any wrapping; "" if none did.
func CodeOf(err error) string {
	var e *Error
	for errors.As(err, &e) {
		if e.Code != "" {
			return e.Code
		}
		err = e.err
	}
	return ""
}

// IsKind reports whether KindOf(err) is the kind. nil is of no kind.
func IsKind(err error, kind Kind) bool {
	return err != nil && KindOf(err) == kind
}

// Busy makes the error of a server that is overloaded, or that needs a system that is away: unavailable, and
// nothing was done. The caller may retry after a delay, and not at another server before.
func Busy(after time.Duration, format string, args ...any) error {
	return &Error{
		Kind:       KindUnavailable,
		Text:       Cut(fmt.Sprintf(format, args...), MaxErrorText),
		RetryAfter: after,
	}
}

// RetryAfter returns the least delay before a retry of the failed request, through any wrapping, and 0 if the
// error has none.
func RetryAfter(err error) time.Duration {
	if KindOf(err) != KindUnavailable {
		return 0
	}
	var e *Error
	for errors.As(err, &e) {
		if e.RetryAfter > 0 {
			return e.RetryAfter
		}
		err = e.err
	}
	return 0
}

// SocketOf returns the path of the operator socket over which the leader takes the denied request, through
// any wrapping, and "" if the error names none.
func SocketOf(err error) string {
	var e *Error
	for IsKind(err, KindDenied) && errors.As(err, &e) {
		if e.Socket != "" {
			return e.Socket
		}
		err = e.err
	}
	return ""
}

// Rejectedf makes the error of a request of a node that is rejected for a cause: unavailable, and nothing was
// done. The agent may try again after a delay, at the same server.
func Rejectedf(cause Cause, after time.Duration, format string, args ...any) error {
	err := Busy(after, format, args...).(*Error)
	err.Cause = cause
	return err
}

// CauseOf returns the cause of a rejection through any wrapping, "" if the error has none.
func CauseOf(err error) Cause {
	if KindOf(err) != KindUnavailable {
		return ""
	}
	var e *Error
	for errors.As(err, &e) {
		if e.Cause != "" {
			return e.Cause
		}
		err = e.err
	}
	return ""
}

// NotServedf makes an error of KindUnavailable with NotServed.
func NotServedf(format string, args ...any) error {
	err := Unavailablef(format, args...).(*Error)
	err.NotServed = true
	return err
}

// IsNotServed reports whether the request may go to another server at once, through any wrapping: see
// Error.NotServed.
func IsNotServed(err error) bool {
	if KindOf(err) != KindUnavailable {
		return false
	}
	var e *Error
	for errors.As(err, &e) {
		if e.NotServed {
			return true
		}
		err = e.err
	}
	return false
}

// The marks begin the fields after an error's text on the wire.
const (
	retryMark  = "; retry after "
	codeMark   = "; csi code "
	servedMark = "; not served here"
	socketMark = "; operator socket "
	causeMark  = "; cause "
)

// ErrorToWire encodes an error as "kind: text", followed by "; csi code NotFound", "; not served here",
// `; operator socket "/path"`, "; cause stale-epoch" and "; retry after 250ms" if they are set. A net/rpc
// reply carries errors in this form only.
func ErrorToWire(err error) string {
	kind := KindOf(err)
	s := string(kind) + ": " + withoutMark(kind, Cut(err.Error(), MaxErrorText))
	if code := CodeOf(err); code != "" {
		s += codeMark + code
	}
	if IsNotServed(err) {
		s += servedMark
	}
	if kind == KindDenied && SocketOf(err) != "" {
		s += socketMark + strconv.Quote(SocketOf(err))
	}
	if cause := CauseOf(err); cause != "" {
		s += causeMark + string(cause)
	}
	if after := RetryAfter(err); after > 0 {
		s += retryMark + after.String()
	}
	return s
}

// withoutMark ends a text with a full stop if it ends like a field that follows the text. Such a text is that
// of a plugin or of Consul, for example: it decides nothing.
func withoutMark(kind Kind, text string) string {
	_, code := cutCode(text)
	_, after := cutRetry(text)
	_, socket := cutSocket(text)
	_, cause := cutCause(text)
	advises := after > 0 || cause != "" || strings.HasSuffix(text, servedMark)
	if code != "" || advises && kind == KindUnavailable || socket != "" && kind == KindDenied {
		return text + "."
	}
	return text
}

// ErrorFromWire decodes the result of ErrorToWire. A string of another form becomes an internal error.
func ErrorFromWire(s string) error {
	for _, r := range kindTable {
		text, ok := strings.CutPrefix(s, string(r.kind)+": ")
		if !ok {
			continue
		}
		e := &Error{Kind: r.kind}
		if r.kind == KindUnavailable {
			text, e.RetryAfter = cutRetry(text)
			text, e.Cause = cutCause(text)
			text, e.NotServed = strings.CutSuffix(text, servedMark)
		}
		if r.kind == KindDenied {
			text, e.Socket = cutSocket(text)
		}
		text, e.Code = cutCode(text)
		e.Text = Cut(text, MaxErrorText)
		return e
	}
	return Internalf("%s", s)
}

// cutRetry returns a text without the delay that ErrorToWire appended, and the delay.
func cutRetry(text string) (string, time.Duration) {
	at := strings.LastIndex(text, retryMark)
	if at < 0 {
		return text, 0
	}
	after, err := time.ParseDuration(text[at+len(retryMark):])
	if err != nil || after <= 0 {
		return text, 0
	}
	return text[:at], after
}

// cutCause returns a text without the cause that ErrorToWire appended, and the cause.
func cutCause(text string) (string, Cause) {
	for _, c := range []Cause{CauseStaleEpoch, CauseSecondAgent} {
		rest, cut := strings.CutSuffix(text, causeMark+string(c))
		if cut {
			return rest, c
		}
	}
	return text, ""
}

// cutSocket returns a text without the path that ErrorToWire appended, and the path.
func cutSocket(text string) (rest, path string) {
	at := strings.LastIndex(text, socketMark)
	if at < 0 {
		return text, ""
	}
	path, err := strconv.Unquote(text[at+len(socketMark):])
	if err != nil || path == "" {
		return text, ""
	}
	return text[:at], path
}

// cutCode returns a text without the code that ErrorToWire appended, and the code, which is one word.
func cutCode(text string) (rest, code string) {
	at := strings.LastIndex(text, codeMark)
	if at < 0 {
		return text, ""
	}
	code = text[at+len(codeMark):]
	if code == "" || strings.TrimFunc(code, unicode.IsLetter) != "" {
		return text, ""
	}
	return text[:at], code
}
