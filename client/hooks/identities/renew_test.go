package identities

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/hooks"
	"berth/structs"
	"berth/structs/access"
	"berth/test/kit"
)

// waitRenewed sleeps beyond the half of the life of the tokens.
func waitRenewed(fx *fixture) {
	fx.t.Helper()
	time.Sleep(life/2 + time.Minute)
	synctest.Wait()
}

// TestRenew_PrecedesTheEndByHalfOfTheLife renews a token for as long as the allocation runs.
func TestRenew_PrecedesTheEndByHalfOfTheLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", inFile))
		defer fx.close()
		alloc, task := fx.started()
		last := fx.asked()[0].at
		for n := 2; n < 6; n++ {
			waitRenewed(fx)
			asked := fx.asked()
			if len(asked) != 1 {
				t.Fatalf("the servers got %d requests", len(asked))
			}
			after := asked[0].at.Sub(last)
			if after < life*9/20 || after > life/2 {
				t.Errorf("renewed after %s", after)
			}
			last = asked[0].at
			fx.checkFile("secrets/nomad_c.jwt", fmt.Sprint("token-c-", n))
		}
		task.Stopped()
		kit.Must(t, alloc.Down(t.Context()))
		if _, ok := fx.env.Token("task", "web", "c"); ok {
			t.Error("the token is left")
		}
		time.Sleep(10 * life)
		if n := len(fx.asked()); n > 0 {
			t.Errorf("%d requests followed the end of the allocation", n)
		}
	})
}

// TestRenew_TriesBeforeTheEndAndAfterIt keeps the servers away for longer than the life of a token.
func TestRenew_TriesBeforeTheEndAndAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", inFile))
		defer fx.close()
		_, task := fx.started()
		first, _ := fx.env.Token("task", "web", "c")
		fx.asked()
		fx.set(func() { fx.err = structs.Unavailablef("there is no leader") })
		time.Sleep(2 * life)
		asked := fx.asked()
		var gap time.Duration // before the end
		for _, r := range asked {
			if r.at.Before(first.Expires) {
				gap = first.Expires.Sub(r.at)
			}
		}
		if gap == 0 || gap > 2*pace.Min {
			t.Errorf("the last of %d attempts was %s before the end", len(asked), gap)
		}
		if token, _ := fx.env.Token("task", "web", "c"); token != first || len(fx.noted(&fx.acts)) > 0 {
			t.Errorf("the task goes on with another token, %v", fx.noted(&fx.acts))
		}
		fx.set(func() { fx.err = nil })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if token, _ := fx.env.Token("task", "web", "c"); token.JWT == first.JWT {
			t.Error("there is no new token")
		}
		task.Stopped()
	})
}

func TestRenew_EndsWithARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", inFile), other("d", inFile))
		defer fx.close()
		_, task := fx.started()
		fx.asked()
		answer := fx.answer
		fx.set(func() {
			fx.answer = func(w access.WantedIdentity, n int) access.SignedIdentity {
				if w.Name == "c" {
					return access.SignedIdentity{WantedIdentity: w, Rejection: "gone"}
				}
				return answer(w, n)
			}
		})
		time.Sleep(3 * life)
		synctest.Wait()
		ofRejected := 0
		asked := fx.asked()
		for _, r := range asked {
			for _, w := range r.list {
				if w.Name == "c" {
					ofRejected++
				}
			}
		}
		if ofRejected != 1 || len(asked) < 5 {
			t.Errorf("%d of %d requests asked for the rejected identity", ofRejected, len(asked))
		}
		task.Stopped()
	})
}

// TestTokenOf_TrustsTheClockOfTheServersWithinTheTTL reads ends that clocks apart make.
func TestTokenOf_TrustsTheClockOfTheServersWithinTheTTL(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		end, ttl, want time.Duration
	}{
		{time.Minute, time.Hour, time.Minute},
		{2 * time.Hour, time.Hour, time.Hour},
		{-time.Minute, time.Hour, time.Hour},
		{2 * time.Minute, 0, 2 * time.Minute},
		{-time.Minute, 0, structs.DefaultIdentityTTL},
	} {
		s := access.SignedIdentity{Expiration: now.Add(c.end).UnixNano()}
		token := TokenOf(s, c.ttl, now)
		if got := token.Expires.Sub(now); got != c.want {
			t.Errorf("the end in %s with a ttl of %s: got %s", c.end, c.ttl, got)
		}
		if renew := token.Renew.Sub(now); renew > c.want/2 || renew < c.want*9/20 {
			t.Errorf("renewed after %s of %s", renew, c.want)
		}
	}
}

// TestChange_ActsOnTheProcess renews tokens with each change mode.
func TestChange_ActsOnTheProcess(t *testing.T) {
	with := func(mode, signal string) func(*structs.WorkloadIdentity) {
		return func(i *structs.WorkloadIdentity) {
			i.File = true
			i.ChangeMode = mode
			i.ChangeSignal = signal
		}
	}
	for name, c := range map[string]struct {
		list []*structs.WorkloadIdentity
		want string
	}{
		"noop":    {[]*structs.WorkloadIdentity{other("c", with("noop", ""))}, "[]"},
		"restart": {[]*structs.WorkloadIdentity{other("c", with("restart", ""))}, "[restart: the identity c has another token]"},
		"signal":  {[]*structs.WorkloadIdentity{other("c", with("signal", "SIGHUP"))}, "[SIGHUP]"},
		"two with one signal": {[]*structs.WorkloadIdentity{
			other("c", with("signal", "SIGHUP")), other("d", with("signal", "SIGHUP")),
		}, "[SIGHUP]"},
		"a restart replaces a signal": {[]*structs.WorkloadIdentity{
			other("c", with("signal", "SIGHUP")), other("d", with("restart", "")),
		}, "[restart: the identity d has another token]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			fx := newFixture(t, c.list...)
			defer fx.close()
			// All tokens are renewed in one call.
			_, task := fx.started()
			tokens := fx.env.Identities.(*tokens)
			kit.Must(t, tokens.sign(t.Context(), tokens.left))
			synctest.Wait()
			if got := fmt.Sprint(fx.noted(&fx.acts)); got != c.want {
				t.Errorf("%s: got %s", name, got)
			}
			fx.checkFile("secrets/nomad_c.jwt", "token-c-2")
			time.Sleep(5 * time.Minute)
			if got := fmt.Sprint(fx.noted(&fx.acts)); got != c.want {
				t.Errorf("%s: after a while %s", name, got)
			}
			task.Stopped()
		})
	}
}

// TestRestartOfTheAgent_TellsTheProcessWhenItsTokenIsDue signs anew at once, and restarts the task only when
// the token that it has is to be renewed.
func TestRestartOfTheAgent_TellsTheProcessWhenItsTokenIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", func(i *structs.WorkloadIdentity) {
			i.File = true
			i.Env = true
			i.ChangeMode = "restart"
		}))
		_, task := fx.started()
		first, _ := fx.env.Token("task", "web", "c")
		time.Sleep(life / 4)
		task.Stopped()
		fx.end()

		fx.running = true
		fx.agent()
		defer fx.close()
		fx.set(func() { fx.err = structs.Unavailablef("there is no leader") })
		_, task = fx.started()
		fx.checkFile("secrets/nomad_c.jwt", "token-c-1")
		fx.set(func() { fx.err = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		second, ok := fx.env.Token("task", "web", "c")
		if !ok || second.JWT == first.JWT || len(fx.noted(&fx.acts)) > 0 {
			t.Fatalf("got %v, %v", ok, fx.noted(&fx.acts))
		}
		fx.checkFile("secrets/nomad_c.jwt", string(second.JWT))

		time.Sleep(time.Until(first.Renew) - time.Second)
		synctest.Wait()
		if len(fx.noted(&fx.acts)) > 0 {
			t.Error("the task restarted too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(fx.noted(&fx.acts)) != 1 {
			t.Errorf("got %v", fx.noted(&fx.acts))
		}
		task.Stopped()
	})
}

// TestUp_WaitsForATokenAfterARestartOfTheAgent starts a process again while the servers do not answer.
func TestUp_WaitsForATokenAfterARestartOfTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", inFile))
		defer fx.close()
		fx.running = true
		fx.err = structs.Unavailablef("there is no leader")
		kit.Must(t, fx.manager.Hook(fx.env).Up(t.Context(), fx.env))
		fx.running = false
		done := make(chan error, 1)
		go func() { done <- fx.manager.TaskHook(fx.env, fx.group.Tasks[0]).Up(t.Context(), fx.taskEnv()) }()
		time.Sleep(2 * hooks.QuietTime)
		synctest.Wait()
		if got := fmt.Sprint(fx.noted(&fx.progress)); !strings.Contains(got, "waits for its signed identity c") {
			t.Errorf("the allocation tells %s", got)
		}
		fx.set(func() { fx.err = nil })
		kit.Must(t, <-done)
		file, err := os.ReadFile(filepath.Join(fx.dir, "secrets/nomad_c.jwt"))
		if err != nil || !strings.HasPrefix(string(file), "token-c-") {
			t.Errorf("the file has %s, %v", file, err)
		}
	})
}

// TestFile_BelongsToTheUserOfTheTask writes the next token for the owner of the local directory.
func TestFile_BelongsToTheUserOfTheTask(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it changes owners")
	}
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", inFile))
		defer fx.close()
		_, task := fx.started()
		kit.Must(t, os.Chown(filepath.Join(fx.dir, "local"), 1234, 5678))
		waitRenewed(fx)
		checkOwned(t, fx, 0o600)
		kit.Must(t, os.Chmod(filepath.Join(fx.dir, "local"), 0o777))
		waitRenewed(fx)
		checkOwned(t, fx, 0o444)
		task.Stopped()
	})
}

func checkOwned(t *testing.T, fx *fixture, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(filepath.Join(fx.dir, "secrets/nomad_c.jwt"))
	kit.Must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != 1234 || st.Gid != 5678 || info.Mode() != mode {
		t.Errorf("the file is of %d:%d with %v, want %v", st.Uid, st.Gid, info.Mode(), mode)
	}
}
