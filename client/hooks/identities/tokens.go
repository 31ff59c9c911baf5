package identities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// callTimeout bounds one call of the servers.
const callTimeout = 30 * time.Second

// pace is for calls that fail.
var pace = backoff.Backoff{Min: time.Second, Max: time.Minute}

// maxSleep bounds a pause between renewals: a machine that slept in between renews soon after.
const maxSleep = time.Minute

// tokens are the signed identities of one allocation.
type tokens struct {
	cfg    Config
	m      *Manager
	alloc  string
	logger hclog.Logger

	mu      sync.Mutex
	left    []want // that are renewed: the servers have rejected none of them
	have    map[access.WantedIdentity]hooks.Token
	changed chan struct{} // closed and replaced at each change
}

func newTokens(m *Manager, alloc string, list []want) *tokens {
	return &tokens{
		cfg:     m.cfg,
		m:       m,
		alloc:   alloc,
		logger:  m.cfg.Logger.With("alloc_id", alloc),
		left:    list,
		have:    map[access.WantedIdentity]hooks.Token{},
		changed: make(chan struct{}),
	}
}

// Token implements hooks.Identities.
func (t *tokens) Token(kind, workload, name string) (token hooks.Token, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	token, ok = t.have[access.WantedIdentity{
		AllocID:  t.alloc,
		Kind:     kind,
		Workload: workload,
		Name:     name,
	}]
	return token, ok
}

// Changed implements hooks.Identities.
func (t *tokens) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// forget drops all tokens.
func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.have)
}

// signFirst returns once all identities are signed. An error is the reason for which one never will be, or
// the end of ctx.
func (t *tokens) signFirst(ctx context.Context) error {
	told := false
	pause := pace
	for {
		back := t.cfg.ServersBack.Next()
		err := t.sign(ctx, t.left)
		if err == nil || ctx.Err() != nil {
			if told {
				t.cfg.Progress(t.alloc, "")
			}

			return ctx.Err()
		}

		if _, rejected := err.(rejection); rejected {
			return structs.Preconditionf("signing its identities: %w", err)
		}

		told = true
		t.cfg.Progress(t.alloc, "waits for its signed identities: "+err.Error())
		t.logger.Warn("failed to get signed identities, retrying", "error", err)
		pause.SleepAfter(ctx, pause.After(err), err, back)
	}
}

// renew renews each token at half of its life, until ctx ends or the servers have rejected all identities. An
// identity without a token is due at once.
func (t *tokens) renew(ctx context.Context) {
	pause := pace
	for ctx.Err() == nil {
		due, next, ok := t.due(time.Now())
		if !ok {
			return
		}

		if len(due) == 0 {
			backoff.Sleep(ctx, min(next, maxSleep))
			continue
		}

		back := t.cfg.ServersBack.Next()
		err := t.sign(ctx, due)
		_, rejected := err.(rejection)
		switch {
		case err == nil:
			pause.Reset()
		case ctx.Err() != nil:
		case rejected:
			t.logger.Info("the servers do not renew an identity", "reason", err)
		default:
			t.logger.Warn("failed to renew identities, retrying", "error", err)
			pause.SleepAfter(ctx, t.delay(pause.After(err), due), err, back)
		}
	}
}

// delay shortens a pause that would last beyond the end of a token, so that a last attempt precedes it.
func (t *tokens) delay(d time.Duration, due []want) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range due {
		left := time.Until(t.have[w.WantedIdentity].Expires)
		if left > 0 {
			d = min(d, max(left/2, pace.Min))
		}
	}
	return d
}

// due returns the identities whose tokens are to be renewed now, or else the time until the first of them. ok
// is false if nothing is left to renew.
func (t *tokens) due(now time.Time) (due []want, next time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next = maxSleep
	for _, w := range t.left {
		wait := t.have[w.WantedIdentity].Renew.Sub(now)
		if wait <= 0 {
			due = append(due, w)
		}
		next = min(next, wait)
	}
	return due, next, len(t.left) > 0
}

// rejection is the reason for which the servers do not sign an identity.
type rejection struct{ text string }

func (r rejection) Error() string { return r.text }

// sign asks the servers for tokens, in as few calls as they allow. A rejection ends the renewals of its
// identity and does not touch the others.
func (t *tokens) sign(ctx context.Context, list []want) (err error) {
	for some := range slices.Chunk(list, access.MaxSignedIdentities) {
		failed := t.signSome(ctx, some)
		_, rejected := failed.(rejection)
		if failed != nil && !rejected {
			return failed
		}
		if rejected {
			err = failed
		}
	}
	return err
}

func (t *tokens) signSome(ctx context.Context, list []want) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &access.SignRequest{NodeID: t.cfg.NodeID, SecretID: t.cfg.SecretID}
	req.Region = t.cfg.Region
	for _, w := range list {
		req.Identities = append(req.Identities, w.WantedIdentity)
	}

	begin := time.Now()
	resp, err := rpc.Call(ctx, t.cfg.Servers, access.IdentitySign, req)
	if err != nil {
		return err
	}
	return t.accept(list, resp.Signed, begin)
}

// accept stores the answers for a list, which were asked for at a time.
func (t *tokens) accept(list []want, signed []access.SignedIdentity, at time.Time) (err error) {
	if len(signed) != len(list) {
		return structs.Internalf("the servers answered with %d identities for %d", len(signed), len(list))
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	for n, s := range signed {
		w := list[n]
		switch {
		case s.WantedIdentity != w.WantedIdentity:
			return structs.Internalf("the servers answered with an identity of %q for %q",
				structs.Cut(s.Workload, structs.MaxQuoted), w.Workload)
		case s.Rejection != "":
			err = rejection{fmt.Sprintf("%s %q: identity %q: %s", w.Kind, w.Workload, w.Name,
				structs.Cut(s.Rejection, structs.MaxReason))}
			t.left = slices.DeleteFunc(slices.Clone(t.left), func(o want) bool { return o == w })
		case !IsToken(string(s.JWT)):
			return structs.Internalf("the servers answered without a token for %q", w.Workload)
		default:
			t.have[w.WantedIdentity] = TokenOf(s, w.ttl, at)
		}
	}

	close(t.changed)
	t.changed = make(chan struct{})
	return err
}

// IsToken reports whether a text can be a token. It becomes a variable and a part of a header.
func IsToken(text string) bool {
	strange := func(r rune) bool { return r <= ' ' || r > '~' }
	return text != "" && len(text) <= structs.MaxIdentity && !strings.ContainsFunc(text, strange)
}

// TokenOf returns a token with its times by the clock of the node. The node trusts the end that the servers
// name only if it is within the time to live: their clocks may differ. A token without an end is replaced as
// often as others, because its key is.
func TokenOf(s access.SignedIdentity, ttl time.Duration, at time.Time) hooks.Token {
	at = at.Round(0) // a machine may sleep, and tokens end meanwhile
	life := time.Unix(0, s.Expiration).Sub(at)
	endless := s.Expiration == 0 && ttl == 0
	if life <= 0 || ttl > 0 && life > ttl {
		life = ttl
	}
	if life <= 0 {
		life = structs.DefaultIdentityTTL
	}

	token := hooks.Token{
		JWT:   s.JWT,
		Renew: at.Add(boottime.RenewAfter(life, false)),
	}
	if !endless {
		token.Expires = at.Add(life)
	}
	return token
}
