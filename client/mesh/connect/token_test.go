package connect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/internal/backoff/cuttest"
	"berth/structs"
	"berth/structs/access"
)

const token = "1d1b9d3c-0000-4000-8000-0000000be27b"

// tokenFixture is a task, with servers that answer as a test says.
type tokenFixture struct {
	t        *testing.T
	cfg      TokenConfig
	env      *hooks.TaskEnv
	file     string
	requests atomic.Int32
	progress string
	// answer is the servers' answer to the nth request, from 1.
	answer func(ctx context.Context, n int) (string, error)
}

func newTokenFixture(t *testing.T) *tokenFixture {
	t.Helper()
	task := filepath.Join(t.TempDir(), "proxy")
	secrets := filepath.Join(task, "secrets")
	if err := os.MkdirAll(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	fx := &tokenFixture{t: t, file: filepath.Join(secrets, driver.SITokenFile)}
	fx.answer = func(context.Context, int) (string, error) { return token, nil }
	fx.cfg = TokenConfig{
		NodeID:   "n1",
		SecretID: "s1",
		Servers:  fx,
		ACLs:     func(context.Context) (bool, error) { return true, nil },
		Logger:   hclog.NewNullLogger(),
		Progress: func(_, reason string) { fx.progress = reason },
	}
	fx.env = &hooks.TaskEnv{
		AllocEnv: &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a1"}},
		Emit:     func(*structs.TaskEvent) {},
		Task:     &structs.Task{Name: "proxy", Kind: structs.NewTaskKind(structs.KindConnectProxy, "web")},
		Config:   &driver.TaskConfig{Dirs: driver.Dirs{Task: task, Secrets: secrets}},
	}
	return fx
}

// Call implements rpc.Caller.
func (fx *tokenFixture) Call(ctx context.Context, method string, req, resp any) error {
	r := req.(*access.DeriveSITokenRequest)
	if method != "Node.DeriveSIToken" || r.AllocID != "a1" || r.NodeID != "n1" || r.SecretID != "s1" ||
		len(r.Tasks) != 1 || r.Tasks[0] != "proxy" {
		fx.t.Errorf("the request is %s of %+v", method, r)
	}
	text, err := fx.answer(ctx, int(fx.requests.Add(1)))
	if err == nil {
		resp.(*access.DeriveSITokenResponse).Tokens = structs.Secrets{"proxy": text}
	}
	return err
}

func (fx *tokenFixture) up(ctx context.Context) error {
	return NewToken(fx.cfg, fx.env.AllocEnv, fx.env.Task).Up(ctx, fx.env)
}

func (fx *tokenFixture) checkFile(want string) {
	fx.t.Helper()
	got, err := os.ReadFile(fx.file)
	if string(got) != want || (err == nil) != (want != "") {
		fx.t.Errorf("the file has %q, %v, want %q", got, err, want)
	}
}

// checkFailed checks that the task fails for good with a reason.
func (fx *tokenFixture) checkFailed(err error, reason string) {
	fx.t.Helper()
	failure, ok := errors.AsType[*hooks.Failure](err)
	if !ok || !failure.Final || !strings.Contains(err.Error(), reason) {
		fx.t.Errorf("got %v, want a final failure: %s", err, reason)
	}
	if fx.progress != "" {
		fx.t.Errorf("the allocation still waits: %s", fx.progress)
	}
	fx.checkFile("")
}

func TestNew_IsNilOutsideOfTheMesh(t *testing.T) {
	fx := newTokenFixture(t)
	if NewToken(fx.cfg, fx.env.AllocEnv, &structs.Task{Name: "web"}) != nil {
		t.Error("a task outside of the mesh has the hook")
	}
}

func TestUp_WritesTheTokenOnce(t *testing.T) {
	fx := newTokenFixture(t)
	for range 3 { // restarts of the task, or of the agent
		if err := fx.up(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fx.checkFile(token)
	if n := fx.requests.Load(); n != 1 {
		t.Errorf("the servers made %d tokens", n)
	}
	if info, err := os.Stat(fx.file); err != nil || info.Mode() != 0o440 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

func TestUp_KeepsTheProgressOfAnotherTask(t *testing.T) {
	fx := newTokenFixture(t)
	fx.progress = "another task waits"
	if err := fx.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if fx.progress != "another task waits" {
		t.Errorf("the allocation tells %q", fx.progress)
	}
}

func TestUp_AsksNothing(t *testing.T) {
	for name, edit := range map[string]func(*tokenFixture){
		"where ACLs are off": func(fx *tokenFixture) {
			fx.cfg.ACLs = func(context.Context) (bool, error) { return false, nil }
		},
		"for a process that runs": func(fx *tokenFixture) { fx.env.Running = true },
	} {
		t.Run(name, func(t *testing.T) {
			fx := newTokenFixture(t)
			edit(fx)
			if err := fx.up(t.Context()); err != nil {
				t.Fatal(err)
			}
			fx.checkFile("")
			if fx.requests.Load() != 0 {
				t.Error("the servers were asked")
			}
		})
	}
}

func TestUp_FailsIfTheFileIsNoToken(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":          func(path string) error { return os.Symlink("/etc/hostname", path) },
		"nothing in it":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"two lines":       func(path string) error { return os.WriteFile(path, []byte("a\nb"), 0o600) },
		"too many bytes":  func(path string) error { return os.WriteFile(path, make([]byte, 9999), 0o600) },
		"a token and NUL": func(path string) error { return os.WriteFile(path, []byte("a\x00"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			fx := newTokenFixture(t)
			if err := spoil(fx.file); err != nil {
				t.Fatal(err)
			}
			err := fx.up(t.Context())
			failure, ok := errors.AsType[*hooks.Failure](err)
			if !ok || !failure.Final || fx.requests.Load() != 0 {
				t.Errorf("got %v after %d requests", err, fx.requests.Load())
			}
		})
	}
}

func TestUp_RepeatsWhatIsNotFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newTokenFixture(t)
		begin := time.Now()
		var at []time.Duration
		fx.answer = func(_ context.Context, n int) (string, error) {
			at = append(at, time.Since(begin))
			if n == 4 {
				synctest.Wait()
				if !strings.Contains(fx.progress, "no leader") {
					t.Errorf("the allocation waits for %q", fx.progress)
				}
				return token, nil
			}
			return "", structs.Unavailablef("no leader")
		}
		if err := fx.up(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, 100 * time.Millisecond, 10100 * time.Millisecond, 25100 * time.Millisecond}
		for i := range want {
			if at[i] != want[i] {
				t.Fatalf("the requests are at %v, want %v", at, want)
			}
		}
		fx.checkFile(token)
	})
	if d := delay(1000); d != 3*time.Minute {
		t.Errorf("the longest delay is %s", d)
	}
}

// A cut may end during a call. The call is repeated at once, and the next pause is the shortest.
func TestUp_AsksAgainAtTheEndOfACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newTokenFixture(t)
		var cut cuttest.Cut
		fx.cfg.ServersBack = &cut.Back
		fx.answer = func(context.Context, int) (string, error) { return token, cut.Attempt() }
		if err := fx.up(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, first, second := cut.Pauses()
		if before < 3*delayStep || first != 0 || second != firstDelay {
			t.Errorf("the pause is %s before the end of the cut, then %s and %s", before, first, second)
		}
	})
}

// A task that waits a second time for the same reason tells it again.
func TestUp_EachWaitTellsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newTokenFixture(t)
		fx.answer = func(_ context.Context, n int) (string, error) {
			if n%2 == 1 {
				return "", structs.Unavailablef("no leader")
			}
			return token, nil
		}
		events := 0
		fx.env.Emit = func(*structs.TaskEvent) { events++ }
		h := NewToken(fx.cfg, fx.env.AllocEnv, fx.env.Task)
		for want := range 2 {
			if err := h.Up(t.Context(), fx.env); err != nil {
				t.Fatal(err)
			}
			if events != want+1 {
				t.Errorf("after %d waits there are %d events", want+1, events)
			}
			if err := os.Remove(fx.file); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// An event names each reason once, the first of them that nothing has answered for a while.
func TestToken_AnEventTellsWhyTheTaskWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newTokenFixture(t)
		fx.answer = func(_ context.Context, n int) (string, error) {
			switch n {
			case 1:
				time.Sleep(hooks.QuietTime + time.Second)
				return "", structs.Unavailablef("no leader")
			case 2:
				return "", structs.Unavailablef("no leader")
			case 3:
				return "", structs.Unavailablef("Consul is away")
			}
			return token, nil
		}
		var events []*structs.TaskEvent
		var at []time.Duration
		begin := time.Now()
		fx.env.Emit = func(e *structs.TaskEvent) {
			events = append(events, e)
			at = append(at, time.Since(begin))
			if fx.progress != e.Message {
				t.Errorf("the event tells %q, the allocation %q", e.Message, fx.progress)
			}
		}
		if err := fx.up(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"there is no answer yet", "no leader", "Consul is away"}
		if len(events) != len(want) || at[0] != hooks.QuietTime {
			t.Fatalf("%d events at %v, want %d, the first at %s", len(events), at, len(want), hooks.QuietTime)
		}
		for i, e := range events {
			text := "task proxy waits for its token of Consul: " + want[i]
			named := e.Details[hooks.ProgressKey] != ""
			if e.Type != structs.TaskEventHookMessage || e.Message != text || !named {
				t.Errorf("event %d is %+v, want %q", i, e, text)
			}
		}
		if fx.progress != "" {
			t.Errorf("the allocation still waits: %s", fx.progress)
		}
	})
}

func TestUp_RepeatsACallWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newTokenFixture(t)
		fx.answer = func(ctx context.Context, n int) (string, error) {
			if n == 2 {
				return token, nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		}
		begin := time.Now()
		if err := fx.up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != callTimeout+firstDelay {
			t.Errorf("it took %s", took)
		}
		fx.checkFile(token)
	})
}

func TestUp_FailsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		err    error
		reason string
	}{
		"a final error":           {"", structs.Deniedf("another node has it"), "another node has it"},
		"no token":                {"", nil, "without a token"},
		"something else than one": {"a b", nil, "without a token"},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newTokenFixture(t)
			fx.answer = func(context.Context, int) (string, error) { return c.text, c.err }
			fx.checkFailed(fx.up(t.Context()), c.reason)
			if n := fx.requests.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A call that ends with its context, and one that does not end with it.
func TestUp_EndsAtTheLimitWithoutAnAnswer(t *testing.T) {
	for name, deaf := range map[string]bool{"a call that listens": false, "a deaf call": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newTokenFixture(t)
				end := make(chan struct{})
				fx.answer = func(ctx context.Context, _ int) (string, error) {
					if deaf {
						<-end
						return token, nil // nobody waits for it
					}
					<-ctx.Done()
					return "", structs.Timeoutf("no answer of Consul: %w", ctx.Err())
				}
				begin := time.Now()
				fx.checkFailed(fx.up(t.Context()), "there is none after 5m0s")
				if took := time.Since(begin); took != timeLimit {
					t.Errorf("it took %s", took)
				}
				close(end)
				synctest.Wait()
				fx.checkFile("")
			})
		})
	}
}

func TestUp_NamesTheLastFaultAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newTokenFixture(t)
		fx.answer = func(context.Context, int) (string, error) { return "", structs.Unavailablef("no leader") }
		fx.checkFailed(fx.up(t.Context()), "no leader")
	})
}

func TestUp_EndsAtTheLimitWithoutConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newTokenFixture(t)
		fx.cfg.ACLs = func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, structs.Unavailablef("the Consul of this node does not answer")
		}
		fx.checkFailed(fx.up(t.Context()), "there is none after 5m0s")
	})
}

// The allocation names the reason of Consul soon, and waits on.
func TestUp_SaysWhyConsulDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newTokenFixture(t)
		calls := 0
		fx.cfg.ACLs = func(ctx context.Context) (bool, error) {
			calls++
			switch calls {
			case 1:
				<-ctx.Done()
				return false, structs.Unavailablef("no answer: denied to the agent's token")
			case 2:
				synctest.Wait()
				if !strings.Contains(fx.progress, "denied to the agent's token") {
					t.Errorf("the allocation waits for %q", fx.progress)
				}
			}
			return true, nil
		}
		begin := time.Now()
		if err := fx.up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != aclsTimeout+firstDelay {
			t.Errorf("it took %s", took)
		}
		fx.checkFile(token)
		fx.cfg.ACLs = func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, structs.Unavailablef("denied to the agent's token")
		}
		if err := os.Remove(fx.file); err != nil {
			t.Fatal(err)
		}
		fx.checkFailed(fx.up(t.Context()), "denied to the agent's token")
	})
}

// An answer of the moment in which the limit ends is used, or the task fails. Nothing is left in both cases.
func TestUp_AnswerInTheMomentOfTheLimit(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			fx := newTokenFixture(t)
			fx.answer = func(context.Context, int) (string, error) {
				time.Sleep(timeLimit)
				return token, nil
			}
			err := fx.up(t.Context())
			if err == nil {
				fx.checkFile(token)
				return
			}
			fx.checkFailed(err, "there is none after 5m0s")
		})
	}
}

// The end of the agent, or of the task, is no failure: the next agent begins anew.
func TestUp_TheEndOfTheAgentIsNoFailure(t *testing.T) {
	for name, answer := range map[string]func(context.Context, int) (string, error){
		"in a call": func(ctx context.Context, _ int) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		},
		"between calls": func(context.Context, int) (string, error) {
			return "", structs.Unavailablef("no leader")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newTokenFixture(t)
				fx.answer = answer
				ctx, stop := context.WithTimeout(t.Context(), 90*time.Second)
				defer stop()
				err := fx.up(ctx)
				if _, failed := errors.AsType[*hooks.Failure](err); failed || !errors.Is(err, ctx.Err()) {
					t.Errorf("got %v", err)
				}
				synctest.Wait()
				fx.checkFile("")
			})
		})
	}
}
