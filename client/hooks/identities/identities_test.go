package identities

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"berth/structs"
	"berth/structs/access"
	"berth/test/kit"
)

func other(name string, edit func(*structs.WorkloadIdentity)) *structs.WorkloadIdentity {
	i := &structs.WorkloadIdentity{Name: name, Audience: []string{"a"}}
	edit(i)
	return i
}

func inFile(i *structs.WorkloadIdentity) { i.File = true }

// TestUp_SignsAllThatSomebodyUsesInOneCall leaves out the default identity of a task that does not show it.
func TestUp_SignsAllThatSomebodyUsesInOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("aws", inFile), other("vault", func(*structs.WorkloadIdentity) {}))
		defer fx.close()
		fx.group.Tasks = append(fx.group.Tasks, &structs.Task{
			Name:     "second",
			Identity: &structs.WorkloadIdentity{Name: "default", Env: true},
		})
		fx.group.Services = []*structs.Service{
			{Name: "api", Identity: &structs.WorkloadIdentity{Name: "consul-service_api-80"}},
			{Name: "plain"},
		}
		fx.up()
		asked := fx.asked()
		if len(asked) != 1 {
			t.Fatalf("the servers got %d requests", len(asked))
		}
		want := []access.WantedIdentity{
			{AllocID: "a1", Kind: "task", Workload: "web", Name: "aws"},
			{AllocID: "a1", Kind: "task", Workload: "web", Name: "vault"},
			{AllocID: "a1", Kind: "task", Workload: "second", Name: "default"},
			{AllocID: "a1", Kind: "service", Workload: "api", Name: "consul-service_api-80"},
		}
		if !slices.Equal(asked[0].list, want) {
			t.Errorf("got %+v", asked[0].list)
		}
		token, ok := fx.env.Token(access.IdentityOfService, "api", "consul-service_api-80")
		if !ok || token.JWT != "token-consul-service_api-80-1" {
			t.Errorf("the service has %q, %v", string(token.JWT), ok)
		}
		if _, ok := fx.env.Token(access.IdentityOfTask, "web", "default"); ok {
			t.Error("there is a token that nobody asked for")
		}
	})
}

func TestHook_IsNilWithoutIdentities(t *testing.T) {
	fx := newFixture(t)
	defer fx.close()
	if fx.manager.Hook(fx.env) != nil || fx.manager.TaskHook(fx.env, fx.group.Tasks[0]) != nil {
		t.Error("a task without a block has hooks")
	}
	if _, ok := fx.env.Token(access.IdentityOfTask, "web", "default"); ok || fx.env.TokensChanged() != nil {
		t.Error("it has a token")
	}
}

// TestUp_ShowsTokensWhereTheJobAsksForThem checks files, variables and the owner of the files.
func TestUp_ShowsTokensWhereTheJobAsksForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t,
			other("", func(i *structs.WorkloadIdentity) {
				i.Env = true
				i.File = true
				i.Audience = nil
			}),
			other("a-b", func(i *structs.WorkloadIdentity) { i.Env = true }),
			other("c", inFile),
			other("d", func(i *structs.WorkloadIdentity) { i.File, i.Filepath = true, "local/x/d.jwt" }),
			other("e", func(*structs.WorkloadIdentity) {}))
		defer fx.close()
		_, _, env := fx.up()
		fx.checkFile("secrets/nomad_token", "token-default-1")
		fx.checkFile("secrets/nomad_c.jwt", "token-c-1")
		fx.checkFile("local/x/d.jwt", "token-d-1")
		if got := fmt.Sprint(env.Config.Env); got != "map[NOMAD_TOKEN:token-default-1 NOMAD_TOKEN_a_b:token-a-b-1]" {
			t.Errorf("got %s", got)
		}
		if got := fmt.Sprint(env.Config.Dirs.Tokens); got != "[secrets/nomad_token secrets/nomad_c.jwt local/x/d.jwt]" {
			t.Errorf("the driver gets %s", got)
		}
		list, err := os.ReadDir(filepath.Join(fx.dir, "secrets"))
		kit.Must(t, err)
		if len(list) != 2 {
			t.Errorf("the secrets are %v", list)
		}
		info, err := os.Stat(filepath.Join(fx.dir, "secrets/nomad_token"))
		kit.Must(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("the file has the mode %v", info.Mode())
		}
	})
}

func TestUp_DeniesAFileOutsideOfTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, path := range []string{"../alloc/x", "/etc/x", "alloc/x"} {
			fx := newFixture(t, other("c", func(i *structs.WorkloadIdentity) { i.File, i.Filepath = true, path }))
			alloc := fx.manager.Hook(fx.env)
			kit.Must(t, alloc.Up(t.Context(), fx.env))
			err := fx.manager.TaskHook(fx.env, fx.group.Tasks[0]).Up(t.Context(), fx.taskEnv())
			if !structs.IsKind(err, structs.KindDenied) {
				t.Errorf("%s: got %v", path, err)
			}
			fx.close()
		}
	})
}

// TestUp_WaitsForTheServers starts no task before its token is there.
func TestUp_WaitsForTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", inFile))
		defer fx.close()
		fx.err = structs.Unavailablef("there is no leader")
		done := make(chan error, 1)
		alloc := fx.manager.Hook(fx.env)
		go func() { done <- alloc.Up(t.Context(), fx.env) }()
		synctest.Wait()
		if n := len(fx.asked()); n != 1 || !strings.Contains(fmt.Sprint(fx.noted(&fx.progress)), "no leader") {
			t.Errorf("after %d requests the allocation tells %q", n, fx.noted(&fx.progress))
		}
		fx.set(func() { fx.err = nil })
		kit.Must(t, <-done)
		told := fx.noted(&fx.progress)
		if last := told[len(told)-1]; last != "" {
			t.Errorf("the allocation still tells %q", last)
		}
	})
}

func TestUp_FailsWithTheReasonOfARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", inFile))
		defer fx.close()
		fx.answer = func(w access.WantedIdentity, _ int) access.SignedIdentity {
			return access.SignedIdentity{WantedIdentity: w, Rejection: "the allocation has ended"}
		}
		err := fx.manager.Hook(fx.env).Up(t.Context(), fx.env)
		if !structs.IsKind(err, structs.KindPrecondition) ||
			!strings.Contains(err.Error(), `task "web": identity "c": the allocation has ended`) {
			t.Errorf("got %v", err)
		}
	})
}

// TestUp_RejectsStrangeAnswers does not show a text to a task that is no token.
func TestUp_RejectsStrangeAnswers(t *testing.T) {
	long := strings.Repeat("x", structs.MaxIdentity+1)
	for name, edit := range map[string]func(*access.SignedIdentity){
		"none":             func(s *access.SignedIdentity) { s.JWT = "" },
		"with a line":      func(s *access.SignedIdentity) { s.JWT = "a\nb" },
		"too long":         func(s *access.SignedIdentity) { s.JWT = structs.Secret(long) },
		"of another":       func(s *access.SignedIdentity) { s.Name = "d" },
		"of another alloc": func(s *access.SignedIdentity) { s.AllocID = "a2" },
	} {
		synctest.Test(t, func(t *testing.T) {
			fx := newFixture(t, other("c", inFile))
			defer fx.close()
			list := wanted(fx.env)
			tokens := newTokens(fx.manager, "a1", list)
			answer := fx.answer
			fx.answer = func(w access.WantedIdentity, n int) access.SignedIdentity {
				s := answer(w, n)
				edit(&s)
				return s
			}
			err := tokens.sign(t.Context(), list)
			if !structs.IsKind(err, structs.KindInternal) {
				t.Errorf("%s: got %v", name, err)
			}
			if err := tokens.accept(list, nil, fx.requests[0].at); err == nil {
				t.Error("an answer without an item was accepted")
			}
			if _, ok := tokens.Token("task", "web", "c"); ok {
				t.Errorf("%s: there is a token", name)
			}
		})
	}
}

// TestTokens_AreInNoRecordAndNoText looks for a token in the records of the node, in events and in the text
// of the values.
func TestTokens_AreInNoRecordAndNoText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other("c", func(i *structs.WorkloadIdentity) {
			inFile(i)
			i.ChangeMode, i.ChangeSignal = "signal", "SIGHUP"
		}))
		fx.reject = structs.Conflictf("the task does not run")
		_, task := fx.started()
		waitRenewed(fx)
		task.Stopped()
		token, _ := fx.env.Token("task", "web", "c")
		text := fmt.Sprintf("%+v %v %+v", token, fx.noted(&fx.events), fx.noted(&fx.progress))
		if len(fx.noted(&fx.events)) < 2 || strings.Contains(text, "token-") {
			t.Errorf("the texts are %s", text)
		}
		rec, err := records.Get(fx.db, task.key)
		kit.Must(t, err)
		if len(rec.Renew) != 1 || strings.Contains(fmt.Sprint(rec), "token-") {
			t.Errorf("the record is %+v", rec)
		}
		kit.Must(t, task.Down(t.Context()))
		rec, err = records.Get(fx.db, task.key)
		kit.Must(t, err)
		if rec != nil {
			t.Errorf("the record %+v is left", rec)
		}
		fx.close()
	})
}
