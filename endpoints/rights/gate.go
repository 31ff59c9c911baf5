package rights

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/golang-lru/v2"

	"berth/acl"
	"berth/internal/idtoken"
	"berth/internal/mvcc"
	"berth/internal/opsocket"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// The bounds on what the gate keeps, and on what it reads.
const (
	keptACLs  = 1024
	maxSecret = idtoken.MaxToken // bytes
)

// Config has the settings of a Gate.
type Config struct {
	// Mode is the one that the configuration of this server asks for, "" for off.
	Mode string
	// Stored returns the mode of the cluster, which a server keeps to if it is stricter. nil: there is none.
	Stored func() string
	// Issuer is the one that identities of workloads may name.
	Issuer string
	Now    func() time.Time
	Logger hclog.Logger
}

// Gate decides about requests. It is safe for many goroutines.
type Gate struct {
	config Config
	// merged has the ACLs of sets of policies, by a hash of their names. Without it each request parses the
	// policies of its token.
	merged *lru.Cache[uint64, mergedACL]
	seed   maphash.Seed // of the hashes
}

// mergedACL is what policies give together. A row of the state never changes: another one replaces it, also
// in a restored archive that has other rules at the same index. So the same rows give the same.
type mergedACL struct {
	policies []*access.Policy
	acl      *acl.ACL
}

// NewGate returns a gate. A gate that is not enabled lets every request pass.
func NewGate(c Config) *Gate {
	merged, err := lru.New[uint64, mergedACL](keptACLs)
	if err != nil {
		panic(err) // only a size below 1 is an error
	}
	return &Gate{
		config: c,
		merged: merged,
		seed:   maphash.MakeSeed(),
	}
}

// Mode returns the mode by which this server decides: the stricter one of its configuration and the cluster.
func (g *Gate) Mode() string {
	if g == nil {
		return access.ModeOff
	}
	own := access.StricterMode(access.ModeOff, g.config.Mode)
	if g.config.Stored == nil {
		return own
	}
	return access.StricterMode(own, g.config.Stored())
}

// Enabled reports whether requests need tokens.
func (g *Gate) Enabled() bool { return g.Mode() != access.ModeOff }

// Enforces reports whether a request may be denied.
func (g *Gate) Enforces() bool { return g.Mode() == access.ModeEnforce }

// Caller is the sender of a request, as far as its token tells.
type Caller struct {
	Token    *access.Token // nil: none was given, or an identity
	Identity *Identity     // nil: it is no workload
	ACL      *acl.ACL
	Ends     time.Time // from which the token is worth nothing; the zero time: it has no end
}

// String names a caller in messages and logs, without a secret.
func (c Caller) String() string {
	switch {
	case c.Identity != nil:
		return c.Identity.String()
	case c.Token == nil:
		return "a caller without a token"
	case c.Token.Name == "":
		return "token " + c.Token.AccessorID
	}
	return fmt.Sprintf("token %s (%s)", c.Token.AccessorID, c.Token.Name)
}

// Check returns an error of kind denied unless the sender of a request has a right. tx is the state from
// which the method answers: a blocking read that asks again with it wakes when the rights of its caller
// change.
//
// A request without any secret is one of a machine for itself: the HTTP API sends access.Anonymous for
// callers without a token. Certificates decide about machines: see certificate.go. Where the port of RPC
// needs none, whoever reaches it is a machine.
func (g *Gate) Check(ctx context.Context, tx mvcc.Reader, r Right, req any) error {
	_, err := g.Admit(ctx, tx, r, req)
	return err
}

// Admit is Check, and returns when the right of the sender ends, unless it ends before.
func (g *Gate) Admit(ctx context.Context, tx mvcc.Reader, r Right, req any) (Until, error) {
	return g.checkSecret(ctx, tx, r, asking{req: req, secret: SecretOf(req)})
}

// CheckAgain is Check for a handler that reads rows later than the gate did, with the request that it makes
// of its caller's. The context is the handler's.
func (g *Gate) CheckAgain(ctx context.Context, tx mvcc.Reader, r Right, req any) error {
	_, err := g.checkSecret(ctx, tx, r, asking{req: req, secret: secretKept(ctx)})
	return err
}

// asking is a request with the secret of its caller.
type asking struct {
	req    any
	secret string
}

func (g *Gate) checkSecret(ctx context.Context, tx mvcc.Reader, r Right, a asking) (Until, error) {
	req := a.req
	mode := g.Mode()
	if mode == access.ModeOff || r.IsOpen() || a.secret == "" {
		return Until{}, nil
	}

	until := Until{stale: isStale(req) && !ofRoot(ctx, a.secret)}
	if r.deferred {
		return until, nil
	}

	caller, err := g.Resolve(ctx, tx, a.secret)
	asked := Question{Caller: caller, Tx: tx, Req: req}
	if err == nil && !r.Allows(asked) {
		err = denied(caller, r)
	}
	onlyLogs := mode == access.ModeLog
	if err != nil && onlyLogs {
		g.config.Logger.Warn("a request would be denied",
			"caller", caller.String(), "needs", r.String(), "reason", err)
		return Until{}, nil
	}
	// A gate that only logs leaves no row out either: a list that lacks rows looks like a fault.
	if r.sees != nil && !onlyLogs {
		show(req, r.sees(asked))
	}
	until.end = caller.Ends
	return until, err
}

// show lets the answer to a request have only what sees reports.
func show(req any, sees func(namespace, id string) bool) {
	switch r := req.(type) {
	case interface{ Query() *structs.QueryOptions }:
		r.Query().Sees = sees
	case interface {
		Show(sees func(namespace, id string) bool)
	}:
		r.Show(sees)
	}
}

func denied(caller Caller, r Right) error {
	if caller.Token == nil && caller.Identity == nil {
		return structs.Deniedf("this needs %s, and the request has no token that gives it: "+
			"log in, or set BERTH_TOKEN", r)
	}
	return structs.Deniedf("this needs %s, and %s does not give it", r, caller)
}

// SecretOf returns the secret of the token of a request, "" if it has none.
func SecretOf(req any) string {
	switch r := req.(type) {
	case interface{ Query() *structs.QueryOptions }:
		return r.Query().AuthToken
	case interface{ Write() *structs.WriteOptions }:
		return r.Write().AuthToken
	}
	return ""
}

// Resolve finds the token with a secret, or the workload of an identity, and what it gives. The error is of
// kind denied if there is no such token, or it has ended. Root on a server needs no token: it reaches the
// operator socket, and the log besides.
func (g *Gate) Resolve(ctx context.Context, tx mvcc.Reader, secret string) (Caller, error) {
	if secret == "" || secret == access.Anonymous {
		if ofRoot(ctx, secret) {
			return Caller{ACL: acl.Management}, nil
		}
		return Caller{ACL: g.anonymous(tx)}, nil
	}

	if len(secret) > maxSecret {
		return Caller{}, structs.Deniedf("the token has %d bytes; expected at most %d", len(secret), maxSecret)
	}
	if idtoken.IsToken(secret) {
		return g.resolveIdentity(tx, secret)
	}
	t := state.TokenBySecret(tx, secret)
	if t == nil || t.Expired(g.config.Now().UnixNano()) {
		return Caller{}, structs.Deniedf("no token has the secret of this request: " +
			"it has expired, was deleted or never existed")
	}
	c := Caller{Token: t, ACL: acl.Management}
	if t.Type != access.TypeManagement {
		c.ACL = g.merge(state.PoliciesOf(tx, t))
	}
	if t.ExpireTime != 0 {
		c.Ends = time.Unix(0, t.ExpireTime)
	}
	return c, nil
}

// ofRoot reports whether a request needs no token, because root sent it over the operator socket.
func ofRoot(ctx context.Context, secret string) bool {
	return (secret == "" || secret == access.Anonymous) && opsocket.Marked(ctx)
}

// Sender names the token of a request, or the workload of an identity, also of one that has ended. It is
// empty without one, and for a secret that no token has.
func (g *Gate) Sender(tx mvcc.Reader, req any) (is access.Caller) {
	secret := SecretOf(req)
	if g == nil || secret == "" || secret == access.Anonymous || len(secret) > maxSecret {
		return is
	}

	if idtoken.IsToken(secret) {
		is.Identity = g.signed(tx, secret)
		return is
	}
	if !g.Enabled() {
		return is
	}
	t := state.TokenBySecret(tx, secret)
	if t != nil {
		is = access.Caller{AccessorID: t.AccessorID, Name: t.Name, Type: t.Type}
	}
	return is
}

// anonymous returns what requests without a token may do.
func (g *Gate) anonymous(tx mvcc.Reader) *acl.ACL {
	p := state.Policy(tx, access.AnonymousPolicy)
	if p == nil {
		return &acl.ACL{}
	}
	return g.merge([]*access.Policy{p})
}

// merge returns the ACL of policies. If one of them does not parse, they give nothing: it might be the one
// that denies. A policy is checked before it is stored, so only another version of berth rejects it.
func (g *Gate) merge(policies []*access.Policy) *acl.ACL {
	key := g.hash(policies)
	known, ok := g.merged.Get(key)
	if ok && slices.Equal(known.policies, policies) {
		return known.acl
	}

	var parsed []*acl.Policy
	for _, p := range policies {
		rules, err := acl.Parse(p.Name, p.Rules)
		if err != nil {
			g.config.Logger.Error("a stored policy is not readable: its tokens have no rights",
				"policy", p.Name, "error", err)
			return &acl.ACL{}
		}
		parsed = append(parsed, rules)
	}
	merged := acl.New(parsed...)
	g.merged.Add(key, mergedACL{policies, merged})
	return merged
}

// hash returns a value that other policies rarely have. Each name has its end.
func (g *Gate) hash(policies []*access.Policy) uint64 {
	var h maphash.Hash
	h.SetSeed(g.seed)
	for _, p := range policies {
		_, _ = h.WriteString(p.Name) // it cannot fail
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}
