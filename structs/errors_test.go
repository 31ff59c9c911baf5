package structs

import (
	"errors"
	"fmt"
	"testing"
)

func TestAnErrorKeepsItsKindOverEveryWire(t *testing.T) {
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

func TestStrangeErrorsAreInternal(t *testing.T) {
	for _, err := range []error{errors.New("x"), ErrorFromWire("x"), ErrorFromWire("odd: x"), ErrorFromWire("")} {
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

func TestExitCodesTellKindsApart(t *testing.T) {
	seen := map[int]Kind{}
	for _, r := range kindTable {
		if other, dup := seen[r.exit]; dup || r.exit == 0 {
			t.Errorf("%s and %s both exit with %d", r.kind, other, r.exit)
		}
		seen[r.exit] = r.kind
	}
}
