package login

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/structs"
)

// The pace of a Keeper.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
	// shortest is the least time between two renewals.
	shortest = time.Second
	// callTimeout bounds one call.
	callTimeout = 20 * time.Second
	// revokeTimeout bounds the revocation of a token, with its repetitions.
	revokeTimeout = 15 * time.Second
)

// Token is a token of Vault or Consul.
type Token struct {
	Secret    structs.Secret
	TTL       time.Duration // from now; 0: it has no end
	Renewable bool
	// found says that a former agent has left the token, so its time is not known yet.
	found bool
	end   boottime.Instant // of its life, as the follower knows it
}

// foundTTL is the time for which a token that was found is used without an answer about it.
const foundTTL = time.Hour

// Account is the way of one workload to its tokens.
type Account interface {
	// Login returns a new token.
	Login(ctx context.Context) (*Token, error)
	// Check returns what the other side knows of a token that a former agent has left. The error is denied for
	// one that has ended.
	Check(ctx context.Context, secret structs.Secret) (*Token, error)
	Renew(ctx context.Context, secret structs.Secret) (*Token, error)
	Revoke(ctx context.Context, secret structs.Secret) error
}

// Keeper keeps the tokens of the workloads of a node alive. It is safe for concurrent use.
type Keeper struct {
	logger  hclog.Logger
	clock   boottime.Clock // a token ends also while the machine is suspended
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	kept map[string]*kept
}

// kept is a token that the Keeper keeps alive.
type kept struct {
	Subject
	token Token
	news  chan struct{} // closed when the token is another one, or has ended
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing follows the token any more
}

// NewKeeper makes a Keeper. It needs Run.
func NewKeeper(logger hclog.Logger) *Keeper {
	k := &Keeper{
		logger: logger.Named("outside"),
		clock:  boottime.Now,
		kept:   map[string]*kept{},
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// Run ends the Keeper once ctx ends, and returns after the last of its goroutines. The tokens stay: the tasks
// run on.
func (k *Keeper) Run(ctx context.Context) {
	<-ctx.Done()
	k.mu.Lock()
	// Keep checks the context under this lock, so no goroutine starts after the wait has begun.
	k.stop()
	k.mu.Unlock()
	k.running.Wait()
}

// Subject is the workload of a token.
type Subject struct {
	Key     string // see KeyOf
	Account Account
	// Forever says that the token is not renewed, and no other one follows it.
	Forever bool
	// Changed is called with each token that follows the first. It may be nil.
	Changed func(Token)
	// Failed is called with the error of each failed renewal or login. It may be nil.
	Failed func(error)
}

// KeyOf returns the key of a workload of an allocation: a task, or a service with its owner.
func KeyOf(allocID, workload string) string { return allocID + "/" + workload }

// Keep keeps a token alive. It takes the place of the one that the subject had before, which is not revoked.
func (k *Keeper) Keep(s Subject, t Token) {
	k.halt(s.Key)
	one := &kept{
		Subject: s,

		token: t,
		news:  make(chan struct{}),
		ended: make(chan struct{}),
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	var ctx context.Context
	ctx, one.stop = context.WithCancel(k.ctx)
	k.kept[s.Key] = one
	if s.Forever || ctx.Err() != nil {
		close(one.ended)
		return
	}

	k.running.Go(func() {
		defer close(one.ended)
		k.follow(ctx, one)
	})
}

// Token returns the token of a workload, and a channel that is closed when it has another one. It is false
// for a workload without a token.
func (k *Keeper) Token(key string) (secret structs.Secret, news <-chan struct{}, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.kept[key]
	if one == nil {
		return "", nil, false
	}
	return one.token.Secret, one.news, one.token.Secret != ""
}

// Has reports whether the Keeper follows a workload, also before its first login.
func (k *Keeper) Has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[key] != nil
}

// halt stops following the token of a workload and waits for that. It returns the token.
func (k *Keeper) halt(key string) (Token, bool) {
	k.mu.Lock()
	one := k.kept[key]
	k.mu.Unlock()
	if one == nil {
		return Token{}, false
	}

	one.stop()
	<-one.ended
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept[key] == one {
		delete(k.kept, key)
		close(one.news)
	}
	return one.token, true
}

// End revokes the token of a workload: the kept one, or else found, which a former agent has left. A failure
// leaves the token to the end of its time to live.
func (k *Keeper) End(ctx context.Context, s Subject, found structs.Secret) {
	t, ok := k.halt(s.Key)
	if !ok {
		t.Secret = found
	}

	if t.Secret == "" {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	pause := backoff.Backoff{Min: minRetry, Max: maxRetry}
	for {
		err := s.Account.Revoke(ctx, t.Secret)
		if err == nil {
			return
		}

		if structs.KindOf(err).Final() || !pause.Wait(ctx) {
			k.logger.Warn("failed to revoke a token; it ends by its time to live", "workload", s.Key,
				"error", err)
			return
		}
	}
}

// follow renews a token until ctx ends or the token has no end.
func (k *Keeper) follow(ctx context.Context, one *kept) {
	t := one.token
	full := t.TTL // the most that a renewal has given
	if t.found {
		full = 0
	}

	t.end = k.clock().Add(t.TTL)
	for t.TTL > 0 && k.clock.SleepUntil(ctx, k.clock().Add(untilRenewal(t))) {
		next, fresh := k.next(ctx, one.Subject, t, full)
		if next == nil {
			return
		}

		full = max(full, next.TTL)
		if fresh {
			full = next.TTL
			k.replace(one, *next)
		}
		t = *next
		t.end = k.clock().Add(t.TTL)
	}
}

// untilRenewal returns the time until a token is renewed.
func untilRenewal(t Token) time.Duration {
	if t.found {
		return 0
	}
	return max(boottime.RenewAfter(t.TTL, !t.Renewable), shortest)
}

// next returns the renewed token, or a fresh one if it cannot be renewed any more. It repeats until ctx ends,
// and then returns nil.
func (k *Keeper) next(
	ctx context.Context, s Subject, t Token, full time.Duration,
) (next *Token, fresh bool) {
	pause := backoff.Backoff{Min: minRetry, Max: maxRetry}
	renewable := t.Renewable || t.found
	for failures := 0; ctx.Err() == nil; failures++ {
		var err error
		switch {
		case t.found && renewable:
			next, err = check(ctx, s.Account, t.Secret)
		case renewable:
			next, err = renew(ctx, s.Account, t.Secret)

			// A renewal that gives little is the last: the token is near the end that its role sets.
			if err == nil && next.TTL > 0 && next.TTL < full/3 {
				renewable = false
				continue
			}
		default:
			next, err = login(ctx, s.Account)
			fresh = true
		}

		if err == nil {
			return next, fresh
		}

		if ctx.Err() != nil {
			return nil, false
		}

		// A token that a former agent has not left is no fault: the login follows.
		if s.Failed != nil && !(t.found && renewable) {
			s.Failed(err)
		}

		if worthLogging(failures) {
			k.logger.Warn("failed to renew a token, retrying", "workload", s.Key, "login", fresh,
				"failures", failures+1, "error", err)
		}

		// Vault has answered that it does not renew the token, or the token has ended meanwhile.
		if renewable && (structs.KindOf(err).Final() || k.clock() > t.end) {
			renewable = false
			continue
		}

		pause.Wait(ctx)
	}
	return nil, false
}

// worthLogging reports whether to log the failure with a number in a row: the first, the second, the fourth.
func worthLogging(n int) bool { return n&(n+1) == 0 }

func renew(ctx context.Context, a Account, secret structs.Secret) (*Token, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t, err := a.Renew(ctx, secret)
	if t != nil {
		t.Secret = secret
	}
	return t, err
}

func check(ctx context.Context, a Account, secret structs.Secret) (*Token, error) {
	if secret == "" {
		return nil, structs.Errorf(structs.KindDenied, "there is no token of a former agent")
	}

	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t, err := a.Check(ctx, secret)
	if t != nil {
		t.Secret = secret
	}
	return t, err
}

func login(ctx context.Context, a Account) (*Token, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return a.Login(ctx)
}

// replace stores a token that follows another, and tells its users. The former one is not revoked:
// its secrets are in use until they are read again, and it is near its end.
func (k *Keeper) replace(one *kept, t Token) {
	k.mu.Lock()
	one.token = t
	news := one.news
	one.news = make(chan struct{})
	k.mu.Unlock()
	if one.Changed != nil {
		one.Changed(t)
	}
	close(news)
}
