package csitest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Func answers an RPC in place of the plugin. req and the answer are messages of the CSI specification.
type Func func(ctx context.Context, req any) (resp any, err error)

// Call is one call that the plugin received, also if a script failed it.
type Call struct {
	RPC     string
	Request proto.Message
	Left    time.Duration // until the deadline of the call, when it arrived; 0: it had none
}

// Get returns a field of the request by its name in the specification. Dots join the names of nested fields
// ("volume_capability.access_mode.mode"). A field that is not set, or is no text, number or enum, has the
// form in which Go prints it. A field that does not exist is "".
func (c Call) Get(field string) string {
	if c.Request == nil {
		return ""
	}
	return fieldOf(c.Request.ProtoReflect(), field)
}

// fieldOf follows a path through a message. Below a map the rest of the path is the key.
func fieldOf(m protoreflect.Message, path string) string {
	name, rest, _ := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if f == nil {
		return ""
	}

	v := m.Get(f)
	switch {
	case f.IsMap():
		return v.Map().Get(protoreflect.ValueOfString(rest).MapKey()).String()
	case f.IsList():
		return fmt.Sprint(v)
	case f.Message() != nil && rest != "":
		return fieldOf(v.Message(), rest)
	case f.Message() != nil:
		if m.Has(f) {
			return v.String()
		}
		return ""

	case f.Enum() != nil:
		return string(f.Enum().Values().ByNumber(v.Enum()).Name())
	}

	return v.String()
}

// scripts holds the tests' instructions for RPCs, and the calls.
type scripts struct {
	mu    sync.Mutex
	funcs map[string]Func
	fails map[string][]error
	// By RPC: closed by the function that Hang has returned.
	hung   map[string]chan struct{}
	calls  []Call
	notify chan struct{} // closed and renewed with each call
	broken chan struct{} // closed while the server stops, so that hung calls end
}

// init makes an empty set of scripts. The plugin embeds the value, so there is no constructor.
func (s *scripts) init() {
	s.funcs = map[string]Func{}
	s.fails = map[string][]error{}
	s.hung = map[string]chan struct{}{}
	s.notify = make(chan struct{})
	s.broken = make(chan struct{})
}

// breakHung ends the calls that hang, and until renewBroken each one that would hang.
func (s *scripts) breakHung() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.broken)
}

// renewBroken lets calls hang again after a restart. The first start finds an open channel and keeps it.
func (s *scripts) renewBroken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.broken:
		s.broken = make(chan struct{})
	default:
	}
}

// recordCall records a call, waits or fails as scripted, and returns the function that answers it.
func (s *scripts) recordCall(ctx context.Context, rpc string, req any) (Func, error) {
	s.mu.Lock()
	// The lock covers the record and the notification, so Await sees the count that woke it.
	msg, _ := req.(proto.Message)
	call := Call{RPC: rpc, Request: msg}
	if deadline, ok := ctx.Deadline(); ok {
		call.Left = time.Until(deadline)
	}

	s.calls = append(s.calls, call)
	close(s.notify)
	s.notify = make(chan struct{})
	hung, broken := s.hung[rpc], s.broken
	s.mu.Unlock()

	// The call waits without the lock: a test must be able to release it, and other calls to pass it.
	if hung != nil {
		select {
		case <-hung:
		case <-broken:
			return nil, Error("Unavailable", "the plugin stops")
		case <-ctx.Done():
			return nil, Error("Canceled", "the caller has gone")
		}
	}

	// The scripts are read after the wait: a test may have changed them meanwhile.
	s.mu.Lock()
	defer s.mu.Unlock()
	// The errors of Fail precede the function of Script, which answers again after the last of them.
	if q := s.fails[rpc]; len(q) > 0 {
		// A nil lets the call through: see Fail.
		s.fails[rpc] = q[1:]
		if q[0] != nil {
			return nil, q[0]
		}
	}

	return s.funcs[rpc], nil
}

// Script makes fn answer an RPC from now on. With nil the plugin answers it again.
func (p *Plugin) Script(rpc string, fn Func) {
	p.scripts.mu.Lock()
	defer p.scripts.mu.Unlock()
	p.scripts.funcs[rpc] = fn
}

// Answer answers an RPC with one message from now on.
func (p *Plugin) Answer(rpc string, resp proto.Message) {
	p.Script(rpc, func(context.Context, any) (any, error) {
		return resp, nil
	})
}

// Fail makes the next calls of an RPC fail, with one error each. A nil lets one call through. It
// replaces an earlier Fail.
func (p *Plugin) Fail(rpc string, errs ...error) {
	p.scripts.mu.Lock()
	defer p.scripts.mu.Unlock()
	p.scripts.fails[rpc] = errs
}

// FailAlways makes every call of an RPC fail until Script(rpc, nil).
func (p *Plugin) FailAlways(rpc string, err error) {
	p.Script(rpc, func(context.Context, any) (any, error) {
		return nil, err
	})
}

// Hang makes calls of an RPC wait until release is called, their caller stops waiting, or the plugin stops.
// Calls are recorded before they wait.
func (p *Plugin) Hang(rpc string) (release func()) {
	p.scripts.mu.Lock()
	defer p.scripts.mu.Unlock()
	gate := make(chan struct{})
	p.scripts.hung[rpc] = gate
	// A test may release a call twice: by itself and in its cleanup.
	return sync.OnceFunc(func() {
		p.scripts.mu.Lock()
		defer p.scripts.mu.Unlock()
		// A later Hang of the RPC has its own channel, which stays.
		if p.scripts.hung[rpc] == gate {
			delete(p.scripts.hung, rpc)
		}
		close(gate)
	})
}

// Calls returns the calls so far, of the named RPCs or of all, in their order.
func (p *Plugin) Calls(rpcs ...string) []Call {
	p.scripts.mu.Lock()
	defer p.scripts.mu.Unlock()
	var out []Call
	for _, c := range p.scripts.calls {
		if len(rpcs) == 0 || slices.Contains(rpcs, c.RPC) {
			out = append(out, c)
		}
	}
	return out
}

// Count returns how often an RPC was called.
func (p *Plugin) Count(rpc string) int {
	return len(p.Calls(rpc))
}

// Forget empties the record of calls.
func (p *Plugin) Forget() {
	p.scripts.mu.Lock()
	defer p.scripts.mu.Unlock()
	p.scripts.calls = nil
}

// Await waits until an RPC has been called n times, or until ctx ends.
func (p *Plugin) Await(ctx context.Context, rpc string, n int) error {
	for {
		// The channel is older than the count, so no call between the two is missed.
		p.scripts.mu.Lock()
		changed := p.scripts.notify
		p.scripts.mu.Unlock()
		if p.Count(rpc) >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s was called %d times, waited for %d: %w",
				rpc, p.Count(rpc), n, ctx.Err())
		}
	}
}
