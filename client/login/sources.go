package login

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"berth/consul"
	"berth/consul/lookup"
	"berth/structs"
	"berth/vault"
)

// ConsulSource answers the questions of templates from Consul, with the token of the task where it has one.
type ConsulSource struct {
	Link   lookup.Source
	Keeper *Keeper
}

// Lookup implements lookup.Source.
func (s *ConsulSource) Lookup(
	ctx context.Context, q lookup.Query, after uint64, wait time.Duration,
) (*lookup.Answer, error) {
	if q.As == "" {
		return s.Link.Lookup(ctx, q, after, wait)
	}

	token, _, ok := s.Keeper.Token("consul/" + q.As)
	if !ok {
		return nil, structs.Unavailablef("%s: the task has no token of Consul yet", q)
	}
	return s.Link.Lookup(consul.WithToken(ctx, token), q, after, wait)
}

// The pace of the questions to Vault.
const (
	// reread is the time after which a secret without a lease is read again, as in the dialect.
	reread = 5 * time.Minute
	// leastPause is the least time between two calls for a secret.
	leastPause = time.Second
)

// VaultSource answers the questions of templates from Vault, with the tokens of their tasks. It renews the
// leases of secrets, and reads a secret again that has none, or whose lease ends. The end of a token ends its
// leases.
type VaultSource struct {
	client *vault.Client
	keeper *Keeper

	mu   sync.Mutex
	held map[lookup.Query]*held
}

// held is the newest answer to a question. One goroutine at a time uses it: the pool asks each question once.
type held struct {
	news  <-chan struct{} // of the token with which it was read
	value any
	index uint64
	lease string
	full  time.Duration // of the lease, when it was new
	next  time.Time     // of the next call; zero for none
}

// NewVaultSource makes a source.
func NewVaultSource(client *vault.Client, keeper *Keeper) *VaultSource {
	return &VaultSource{client: client, keeper: keeper, held: map[lookup.Query]*held{}}
}

// Lookup implements lookup.Source. The index of an answer rises with each value that was read.
func (s *VaultSource) Lookup(
	ctx context.Context, q lookup.Query, after uint64, wait time.Duration,
) (*lookup.Answer, error) {
	h := s.of(q)
	end := time.Now().Add(wait)
	for {
		token, news, ok := s.keeper.Token("vault/" + q.As)
		if !ok {
			return nil, structs.Unavailablef("%s: the task has no token of Vault yet", q)
		}

		a := vault.Access{Token: token, Namespace: q.Namespace}
		switch {
		// With another token, the leases of the former one end.
		case h.index == 0 || h.news != news:
			err := s.read(ctx, a, q, h)
			if err != nil {
				return nil, err
			}
			h.news = news
		case !h.next.IsZero() && !time.Now().Before(h.next):
			err := s.refresh(ctx, a, q, h)
			if err != nil {
				return nil, err
			}
		}

		if h.index > after || !time.Now().Before(end) {
			return &lookup.Answer{Value: h.value, Index: h.index}, nil
		}

		err := h.sleep(ctx, end)
		if err != nil {
			return nil, err
		}
	}
}

// of returns the answer to a question, and forgets the answers of tasks without a token.
func (s *VaultSource) of(q lookup.Query) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.held {
		if other != q && !s.keeper.Has("vault/"+other.As) {
			delete(s.held, other)
		}
	}

	h := s.held[q]
	if h == nil {
		h = &held{}
		s.held[q] = h
	}
	return h
}

// sleep waits until the next call is due, the token is another one, or end.
func (h *held) sleep(ctx context.Context, end time.Time) error {
	if !h.next.IsZero() && h.next.Before(end) {
		end = h.next
	}

	t := time.NewTimer(time.Until(end))
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.news:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// read reads the answer anew.
func (s *VaultSource) read(ctx context.Context, a vault.Access, q lookup.Query, h *held) error {
	var err error
	var secret *vault.Secret
	switch q.Kind {
	case lookup.VaultNames:
		var names []string
		names, err = s.client.List(ctx, a, q.Name)
		if structs.IsKind(err, structs.KindNotFound) { // there are none
			names = []string{}
			err = nil
		}
		if err == nil {
			h.set(names, &vault.Secret{})
		}
		return err
	case lookup.VaultWrite:
		var values map[string]string
		err = json.Unmarshal([]byte(q.Values), &values)
		if err == nil {
			secret, err = s.client.Write(ctx, a, q.Name, values)
		}
	default:
		secret, err = s.client.Read(ctx, a, vault.Place{Path: q.Name, Version: q.Tag})
	}

	if err != nil {
		return err
	}

	h.set(valueOf(secret), secret)
	if q.Kind == lookup.VaultWrite && secret.LeaseDuration == 0 && h.next.IsZero() {
		return nil
	}

	if h.next.IsZero() {
		h.next = time.Now().Add(reread - rand.N(reread/10))
	}
	return nil
}

// set stores a value that was read, with the time at which its lease is renewed or it has to be read again.
func (h *held) set(value any, secret *vault.Secret) {
	h.value = value
	h.index++
	h.lease = ""
	h.next = time.Time{}
	h.full = time.Duration(min(secret.LeaseDuration, int64(maxLease/time.Second))) * time.Second
	switch {
	case secret.LeaseID != "" && secret.LeaseDuration > 0:
		if secret.Renewable {
			h.lease = secret.LeaseID
		}
		h.plan(h.full)
	default:
		if life, ok := ownLife(secret.Data); ok {
			h.next = time.Now().Add(max(life, leastPause))
		}
	}
}

// maxLease bounds the time of a lease: longer ones do not fit into a Duration.
const maxLease = 100 * 365 * 24 * time.Hour

// plan sets the next call for a lease that lasts for a time: two thirds of it if the lease is renewed, and
// nearly all of it otherwise.
func (h *held) plan(lasts time.Duration) {
	life := lasts / 10 * 9
	if h.lease != "" {
		life = lasts / 3 * 2
	}
	h.next = time.Now().Add(max(life-rand.N(lasts/10+1), leastPause))
}

// ownLife returns the time after which a value is read again because of the time that it names itself: that
// of a certificate, or the next rotation of a password.
func ownLife(data map[string]any) (time.Duration, bool) {
	if _, rotates := data["rotation_period"]; rotates {
		n, ok := number(data["ttl"])
		return time.Duration(n+1) * time.Second, ok
	}

	if _, isCertificate := data["certificate"]; isCertificate {
		end, ok := number(data["expiration"])
		return time.Until(time.Unix(end, 0)) / 10 * 9, ok
	}
	return 0, false
}

// number returns a number of JSON within bounds.
func number(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return min(max(i, 0), 1<<33), err == nil
}

// refresh renews the lease of an answer, or reads it again.
func (s *VaultSource) refresh(ctx context.Context, a vault.Access, q lookup.Query, h *held) error {
	if h.lease == "" {
		return s.read(ctx, a, q, h)
	}

	renewed, err := s.client.RenewLease(ctx, a, h.lease, h.full)
	switch {
	case err != nil && !structs.KindOf(err).Final():
		return err
	// A renewal that gives little is the last: the task gets another secret before this one ends.
	case err != nil || time.Duration(renewed.LeaseDuration)*time.Second < h.full/3:
		return s.read(ctx, a, q, h)
	}

	h.plan(time.Duration(renewed.LeaseDuration) * time.Second)
	return nil
}

// valueOf returns a secret as templates see it.
func valueOf(s *vault.Secret) *lookup.VaultAnswer {
	out := &lookup.VaultAnswer{
		LeaseID:       s.LeaseID,
		LeaseDuration: s.LeaseDuration,
		Renewable:     s.Renewable,
		Data:          s.Data,
	}
	if s.Auth != nil {
		out.Auth = &lookup.VaultAuth{
			ClientToken:   s.Auth.ClientToken,
			Accessor:      s.Auth.Accessor,
			Policies:      s.Auth.Policies,
			LeaseDuration: s.Auth.LeaseDuration,
			Renewable:     s.Auth.Renewable,
		}
	}
	return out
}
