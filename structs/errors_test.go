package structs

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestError_KeepsItsKindOverEveryWire(t *testing.T) {
	for _, r := range kindTable {
		err := fmt.Errorf("staging volume db: %w", Errorf(r.kind, "no: %w", errors.New("disk full")))
		if KindOf(err) != r.kind {
			t.Errorf("%s: wrapped it is %s", r.kind, KindOf(err))
		}
		back := ErrorFromWire(ErrorToWire(err))
		if KindOf(back) != r.kind || back.Error() != err.Error() {
			t.Errorf("%s: over the wire it is %s %q", r.kind, KindOf(back), back)
		}
		if got := KindFromHTTP(r.kind.HTTPStatus()); got != r.kind {
			t.Errorf("%s: over HTTP it is %s", r.kind, got)
		}
		for _, code := range r.grpc {
			if got := KindFromGRPC(code); got != r.kind {
				t.Errorf("gRPC code %d: %s, want %s", code, got, r.kind)
			}
		}
	}
}

func TestKindOf_UnknownErrorsAreInternal(t *testing.T) {
	for _, err := range []error{errors.New("x"), ErrorFromWire("x"), ErrorFromWire("odd: x"),
		ErrorFromWire("")} {
		if KindOf(err) != KindInternal {
			t.Errorf("%q is %s", err, KindOf(err))
		}
	}
	if KindOf(nil) != "" || IsKind(nil, KindInternal) {
		t.Error("nil has a kind")
	}
	if KindFromGRPC(2) != KindInternal || KindFromHTTP(418) != KindInternal {
		t.Error("an unknown code has a kind")
	}
}

func TestExitCodes_DifferByKind(t *testing.T) {
	seen := map[int]Kind{}
	for _, r := range kindTable {
		if other, dup := seen[r.exit]; dup || r.exit == 0 {
			t.Errorf("%s and %s both exit with %d", r.kind, other, r.exit)
		}
		seen[r.exit] = r.kind
	}
}

func TestNotServed_CrossesTheWire(t *testing.T) {
	unled := NotServedf("no leader")
	for _, tc := range []struct {
		err  error
		wire string
		want bool
	}{
		{unled, "unavailable: no leader; not served here", true},
		{fmt.Errorf("claiming: %w", unled), "unavailable: claiming: no leader; not served here", true},
		{Unavailablef("x: %w", unled), "unavailable: x: no leader; not served here", true},
		{Errorf(KindInternal, "gave up: %w", unled), "internal: gave up: no leader", false},
		{Errorf(KindInvalid, "no; not served here"), "invalid: no; not served here", false},
		{Unavailablef("away"), "unavailable: away", false},
	} {
		if got := ErrorToWire(tc.err); got != tc.wire {
			t.Errorf("wrote %q, want %q", got, tc.wire)
		}
		back := ErrorFromWire(tc.wire)
		was := IsNotServed(tc.err)
		is := IsNotServed(back)
		if back.Error() != tc.err.Error() || was != tc.want || is != tc.want {
			t.Errorf("%q came back as %q, not served %v, was %v", tc.wire, back, is, was)
		}
	}
	if IsNotServed(nil) {
		t.Error("nil is not served")
	}
}

// A text that comes from elsewhere, for example from a plugin, may end like a field of berth.
func TestErrorToWire_TakesNoFieldFromAText(t *testing.T) {
	for _, text := range []string{
		"away; not served here",
		"away; retry after 5s",
		"away; csi code NotFound",
		"away; not served here; retry after 5s",
	} {
		foreign := Unavailablef("%s", text)
		plugins := &Error{Kind: KindUnavailable, Text: text, Code: "Internal"}
		for _, err := range []error{foreign, plugins, NotServedf("%s", text), Busy(time.Second, "%s", text)} {
			back := ErrorFromWire(ErrorToWire(ErrorFromWire(ErrorToWire(err)))) // over two servers
			if back.Error() != text+"." || IsNotServed(back) != IsNotServed(err) ||
				RetryAfter(back) != RetryAfter(err) || CodeOf(back) != CodeOf(err) {
				t.Errorf("%+v came back as %+v", err, back)
			}
		}
	}
}

func TestSocket_CrossesTheWire(t *testing.T) {
	denied := &Error{Kind: KindDenied, Text: "not here", Socket: `/run/"b.sock`}
	for _, err := range []error{denied, fmt.Errorf("fencing: %w", denied), Deniedf("fencing: %w", denied)} {
		back := ErrorFromWire(ErrorToWire(ErrorFromWire(ErrorToWire(err)))) // over two servers
		if SocketOf(err) != denied.Socket || SocketOf(back) != denied.Socket || back.Error() != err.Error() {
			t.Errorf("%v came back as %v with the socket %q", err, back, SocketOf(back))
		}
	}

	const text = `no; operator socket "/tmp/x"`
	for _, err := range []error{Deniedf("%s", text), Invalidf("%s", text), Unavailablef("x: %w", denied), nil} {
		if err != nil {
			err = ErrorFromWire(ErrorToWire(err))
		}
		if SocketOf(err) != "" {
			t.Errorf("%v names the socket %q", err, SocketOf(err))
		}
	}
}

func TestRetryAfter_CrossesTheWire(t *testing.T) {
	busy := Busy(250*time.Millisecond, "%d writes are under way", 512)
	for _, tc := range []struct {
		err   error
		wire  string
		after time.Duration
	}{
		{busy, "unavailable: 512 writes are under way; retry after 250ms", 250 * time.Millisecond},
		{fmt.Errorf("claiming: %w", busy), "unavailable: claiming: 512 writes are under way; retry after 250ms",
			250 * time.Millisecond},
		{Errorf(KindOf(busy), "claiming: %w", busy),
			"unavailable: claiming: 512 writes are under way; retry after 250ms", 250 * time.Millisecond},
		{Errorf(KindUnavailable, "x: %w", errors.Join(errors.New("a"), busy)),
			"unavailable: x: a\n512 writes are under way; retry after 250ms", 250 * time.Millisecond},
		{Errorf(KindInternal, "gave up: %w", busy), "internal: gave up: 512 writes are under way", 0},
		{Errorf(KindUnavailable, "away"), "unavailable: away", 0},
		{Errorf(KindUnavailable, "away; retry after lunch"), "unavailable: away; retry after lunch", 0},
		{Errorf(KindInvalid, "no; retry after 1s"), "invalid: no; retry after 1s", 0},
	} {
		if got := ErrorToWire(tc.err); got != tc.wire {
			t.Errorf("wrote %q, want %q", got, tc.wire)
		}
		back := ErrorFromWire(tc.wire)
		if back.Error() != tc.err.Error() || RetryAfter(back) != tc.after || RetryAfter(tc.err) != tc.after {
			t.Errorf("%q came back as %q, after %s, was %s", tc.wire, back, RetryAfter(back), RetryAfter(tc.err))
		}
	}
	if RetryAfter(nil) != 0 {
		t.Error("nil has a retry time")
	}
}

func TestCause_CrossesTheWire(t *testing.T) {
	late := Rejectedf(CauseStaleEpoch, time.Second, "too late")
	for _, err := range []error{late, fmt.Errorf("claiming: %w", late), Unavailablef("claiming: %w", late)} {
		back := ErrorFromWire(ErrorToWire(ErrorFromWire(ErrorToWire(err)))) // over two servers
		if CauseOf(back) != CauseStaleEpoch || RetryAfter(back) != time.Second || back.Error() != err.Error() {
			t.Errorf("%v came back as %v with the cause %q", err, back, CauseOf(back))
		}
	}
	for _, err := range []error{
		Unavailablef("away; cause stale-epoch"), Invalidf("x: %w", late), Unavailablef("away"),
	} {
		if back := ErrorFromWire(ErrorToWire(err)); CauseOf(back) != "" {
			t.Errorf("%v came back with the cause %q", err, CauseOf(back))
		}
	}
}
