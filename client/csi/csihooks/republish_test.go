package csihooks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/client/csi/registry"
	"berth/client/hooks"
	"berth/csi"
	"berth/csi/csitest"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/access"
	"berth/test/kit"
)

const (
	inContext = "volume_context." + csi.TokensKey
	inSecrets = "secrets." + csi.TokensKey
)

// sign signs what a driver may have: the allocation a1 and the plugin ebs.
func (s *fakeServers) sign(r *access.SignRequest, resp *access.SignResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range r.Identities {
		one := access.SignedIdentity{WantedIdentity: w, Rejection: s.rejects}
		if s.rejects == "" {
			s.signed++
			one.JWT = structs.Secret(fmt.Sprintf("jwt-%s-%d", w.Name, s.signed))
			one.Expiration = time.Now().Add(s.life).UnixNano()
		}
		if w.Kind != access.IdentityOfVolume || w.AllocID != "a1" || w.Workload != "ebs" || r.SecretID != "secret" {
			return structs.Deniedf("who is asking for %+v?", w)
		}
		resp.Signed = append(resp.Signed, one)
	}
	return nil
}

// renewing is a plugin that is called again before its token of an audience ends.
func renewing(i *registry.Instance) {
	i.Tokens = []*structs.CSIToken{{Audience: "vault", TTL: time.Hour}}
	i.TokensIn = structs.TokensInSecrets
	i.RequiresRepublish = true
}

// user is a running task with the volume.
type user struct {
	hooks.Control
	task   hooks.Task
	mu     sync.Mutex
	events []string
	told   chan struct{}
}

func (u *user) Emit(e *structs.TaskEvent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.events = append(u.events, e.Message)
	select {
	case u.told <- struct{}{}:
	default:
	}
}

func (u *user) said() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return strings.Join(u.events, "\n")
}

// use starts a task of an allocation.
func (r *fixture) use(e *hooks.AllocEnv) *user {
	r.t.Helper()
	u := &user{told: make(chan struct{}, 1)}
	u.task = NewRepublisher(r.config(), e, &structs.Task{
		Name:         "t",
		VolumeMounts: []*structs.VolumeMount{{Volume: "d", Destination: "/d"}},
	})
	if u.task == nil {
		r.t.Fatal("the task has no hook")
	}
	kit.Must(r.t, u.task.Up(r.t.Context(), nil))
	u.task.(hooks.Started).Started(r.t.Context(), u)
	return u
}

func (u *user) stop() { u.task.(hooks.Started).Stopped() }

// checkTokens checks the tokens of a call, by their audiences.
func checkTokens(t *testing.T, text string, audiences ...string) {
	t.Helper()
	var got map[string]struct {
		Token               string
		ExpirationTimestamp time.Time
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != len(audiences) {
		t.Errorf("the tokens are %q, %v", text, err)
	}
	for _, a := range audiences {
		one := got[a]
		if !strings.HasPrefix(one.Token, "jwt-"+a+"-") || time.Until(one.ExpirationTimestamp) <= 0 {
			t.Errorf("the token of %s is %+v", a, one)
		}
	}
}

func hasToken(c csitest.Call, field string) bool { return strings.Contains(c.Get(field), "jwt-") }

// checkNoRecord looks for tokens in the files of the node.
func (r *fixture) checkNoRecord() {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "*"))
	kit.Must(r.t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), "jwt-") {
			r.t.Errorf("%s has a token", file)
		}
	}
}

// TestTokens_AreWhereTheDriverAsksForThem has no token in any other call.
func TestTokens_AreWhereTheDriverAsksForThem(t *testing.T) {
	for place, fields := range map[string][2]string{
		structs.TokensInContext: {inContext, inSecrets},
		structs.TokensInSecrets: {inSecrets, inContext},
	} {
		r := newFixture(t)
		r.servers.life = time.Hour
		p := r.plugin("ebs", func(i *registry.Instance) {
			i.Tokens = []*structs.CSIToken{{Audience: "vault", TTL: time.Hour}, {Audience: "aws", TTL: time.Hour}}
			i.TokensIn = place
		})
		e := allocEnv("a1", map[string]string{"d": "data"})
		h := r.volumes(e)
		kit.Must(t, h.Up(r.ctx(), e))
		call := p.Calls("NodePublishVolume")[0]
		checkTokens(t, call.Get(fields[0]), "vault", "aws")
		if hasToken(call, fields[1]) || call.Get("secrets.pw") != "x" {
			t.Errorf("%s: the call is %v", place, call.Request)
		}
		if stage := p.Calls("NodeStageVolume")[0]; hasToken(stage, fields[0]) || hasToken(stage, fields[1]) {
			t.Errorf("%s: the volume was staged with tokens", place)
		}
		r.checkNoRecord()
		kit.Must(t, h.Down(r.ctx()))
		for _, c := range p.Calls() {
			if c.RPC != "NodePublishVolume" && strings.Contains(fmt.Sprint(c.Request), "jwt-") {
				t.Errorf("%s has a token", c.RPC)
			}
		}
		if v := r.servers.volumes["data"]; len(v.Context) != 0 || len(v.Secrets) != 1 {
			t.Errorf("%s: the volume of the claim has got the tokens", place)
		}
		r.clean()
	}
}

func TestTokens_AreNotSignedForADriverThatDoesNotAsk(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	u := r.use(e)
	u.stop()
	call := p.Calls("NodePublishVolume")[0]
	if hasToken(call, inContext) || hasToken(call, inSecrets) || r.servers.count(access.IdentitySign.Name) != 0 {
		t.Errorf("the call is %v", call.Request)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// TestTokens_ThatTheServersDenyPublishNothing fails the allocation with their reason.
func TestTokens_ThatTheServersDenyPublishNothing(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", renewing)
	r.servers.rejects = "the allocation has ended"
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	err := h.Up(r.ctx(), e)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), r.servers.rejects) {
		t.Errorf("got %v", err)
	}
	if p.Count("NodePublishVolume") > 0 {
		t.Error("the volume was published without a token")
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// A driver need not accept a map of more than 4 KiB.
func TestTokens_ThatAreTooLargePublishNothing(t *testing.T) {
	for _, place := range []string{structs.TokensInContext, structs.TokensInSecrets} {
		r := newFixture(t)
		r.servers.life = time.Hour
		p := r.plugin("ebs", func(i *registry.Instance) {
			for n := range structs.MaxAudiences {
				audience := strings.Repeat("a", structs.MaxName-2) + fmt.Sprintf("%02d", n)
				i.Tokens = append(i.Tokens, &structs.CSIToken{Audience: audience, TTL: time.Hour})
			}
			i.TokensIn = place
		})
		e := allocEnv("a1", map[string]string{"d": "data"})
		h := r.volumes(e)
		err := h.Up(r.ctx(), e)
		want := fmt.Sprintf("with the %d tokens that it asks for; CSI allows 4096", structs.MaxAudiences)
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), place+" has") {
			t.Errorf("%s: got %v", place, err)
		}
		if p.Count("NodePublishVolume") > 0 {
			t.Errorf("%s: the volume was published", place)
		}
		kit.Must(t, h.Down(r.ctx()))
		r.clean()
	}
}

// TestRepublish_PrecedesTheEndOfTheTokens repeats the call with the same target and other tokens, and nothing
// else. Servers and a driver that fail meanwhile do no harm.
func TestRepublish_PrecedesTheEndOfTheTokens(t *testing.T) {
	r := newFixture(t)
	r.servers.life = 400 * time.Millisecond
	p := r.plugin("ebs", renewing)
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	u := r.use(e)
	kit.Must(t, p.Await(r.ctx(), "NodePublishVolume", 3))
	calls := p.Calls("NodePublishVolume")
	seen := map[string]bool{}
	for _, c := range calls {
		seen[c.Get(inSecrets)] = true
		if c.Get("target_path") != calls[0].Get("target_path") ||
			c.Get("staging_target_path") != calls[0].Get("staging_target_path") || c.Get("secrets.pw") != "x" {
			t.Errorf("the call is %v", c.Request)
		}
	}
	if len(seen) != len(calls) || u.said() != "" {
		t.Errorf("%d calls had %d tokens; the task is told %q", len(calls), len(seen), u.said())
	}

	r.servers.change(func() {
		r.servers.fail[access.IdentitySign.Name] = []error{structs.Unavailablef("there is no leader")}
	})
	<-u.told
	quoting := func(_ context.Context, req any) (any, error) {
		return nil, csitest.Error("Internal", "expired: %v", req)
	}
	p.Script("NodePublishVolume", quoting)
	<-u.told
	p.Script("NodePublishVolume", nil)
	kit.Must(t, p.Await(r.ctx(), "NodePublishVolume", p.Count("NodePublishVolume")+2))
	u.stop()
	if said := u.said(); !strings.Contains(said, "there is no leader") || !strings.Contains(said, "expired") ||
		strings.Contains(said, "jwt-") {
		t.Errorf("the task is told %q", said)
	}
	if p.Count("NodeUnpublishVolume") > 0 || p.Count("NodeStageVolume") != 1 {
		t.Error("the volume was taken from the task")
	}
	r.checkNoRecord()

	many := p.Count("NodePublishVolume")
	kit.Must(t, h.Down(r.ctx()))
	if p.Count("NodePublishVolume") != many {
		t.Error("the volume was published after the end of its task")
	}
	r.clean()
}

// TestRepublish_FollowsARestartOfTheAgent gives the driver other tokens at once: the next agent knows none.
func TestRepublish_FollowsARestartOfTheAgent(t *testing.T) {
	r := newFixture(t)
	r.servers.life = time.Hour
	p := r.plugin("ebs", renewing)
	e := allocEnv("a1", map[string]string{"d": "data"})
	kit.Must(t, r.volumes(e).Up(r.ctx(), e))
	r.crash()
	r.boot()
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	u := r.use(e)
	kit.Must(t, p.Await(r.ctx(), "NodePublishVolume", 2))
	u.stop()
	if n := p.Count("NodePublishVolume"); n != 2 {
		t.Errorf("the volume was published %d times", n)
	}
	r.down(h)
	r.clean()
}

// TestRepublish_IsForDriversThatWantIt also restarts the agent, after which tokens are due.
func TestRepublish_IsForDriversThatWantIt(t *testing.T) {
	r := newFixture(t)
	r.servers.life = time.Hour
	p := r.plugin("ebs", renewing, func(i *registry.Instance) { i.RequiresRepublish = false })
	e := allocEnv("a1", map[string]string{"d": "data"})
	kit.Must(t, r.volumes(e).Up(r.ctx(), e))
	r.crash()
	r.boot()
	h := r.volumes(e).(*volumesHook)
	kit.Must(t, h.Up(r.ctx(), e))
	u := r.use(e)
	u.stop()
	task := u.task.(*republisher)
	if next := task.look(r.ctx(), u, task.volumes[0], new(backoff.Backoff)); next != maxLook {
		t.Errorf("the next look is after %s", next)
	}
	if n := p.Count("NodePublishVolume"); n != 1 {
		t.Errorf("the volume was published %d times", n)
	}
	r.down(h)
	r.clean()
}

// TestRepublish_NeedsTheGrantAndTheMount does not publish what is not there any more.
func TestRepublish_NeedsTheGrantAndTheMount(t *testing.T) {
	r := newFixture(t)
	r.servers.life = time.Hour
	p := r.plugin("ebs", renewing)
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e).(*volumesHook)
	kit.Must(t, h.Up(r.ctx(), e))
	all, err := h.requiredVolumes()
	kit.Must(t, err)
	r.servers.change(func() { r.servers.blocked["data"] = "it is fenced" })
	if err := h.republish(r.ctx(), all[0]); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("with a claim that is blocked: got %v", err)
	}
	r.servers.change(func() {
		delete(r.servers.blocked, "data")
		for k, c := range r.servers.claims {
			again := c.Copy()
			again.GrantIndex++
			r.servers.claims[k] = again
		}
	})
	if err := h.republish(r.ctx(), all[0]); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("under another grant: got %v", err)
	}
	if n := p.Count("NodePublishVolume"); n != 1 {
		t.Errorf("the volume was published %d times", n)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// TestNewRepublisher_IsForTasksThatMountAVolume leaves others alone.
func TestNewRepublisher_IsForTasksThatMountAVolume(t *testing.T) {
	r := newFixture(t)
	e := allocEnv("a1", map[string]string{"d": "data", "l": "logs"})
	for name, want := range map[string][]string{"d": {"data"}, "other": nil} {
		task := &structs.Task{VolumeMounts: []*structs.VolumeMount{nil, {Volume: name}}}
		var got []string
		if h, ok := NewRepublisher(r.config(), e, task).(*republisher); ok {
			for _, w := range h.volumes {
				got = append(got, w.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
