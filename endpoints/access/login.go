package access

import (
	"context"

	"berth/endpoints/core"
	"berth/endpoints/rights"
	"berth/internal/authmethod"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// Logins serves the methods of logins: auth methods, binding rules, logins by a JWT or by OIDC, and one-time
// tokens. The leader serves all that write, so it alone calls providers and counts attempts. Without an open
// root key a server stores no secret of a method and begins no login by OIDC.
type Logins struct {
	*core.Server
	issuers *authmethod.Cache
	limits  *authmethod.AttemptLimits
}

// NewLogins returns the procedures of a server.
func NewLogins(s *core.Server) Logins {
	return Logins{
		Server:  s,
		issuers: authmethod.NewCache(s.Now),
		limits:  authmethod.NewAttemptLimits(s.Now),
	}
}

// AnyToken is the right to make a one-time token.
var AnyToken = rights.Where("any token", func(q rights.Question) bool { return q.Token != nil })

// The rights of methods that need no token.
var (
	ToLogIn      = rights.None("a caller has no token before the login")
	ToFindMethod = rights.None("a login names its method; lists have no configuration")
)

// The bounds on the parts of a login, in bytes.
const (
	maxLoginToken = 16 << 10
	maxCode       = 4 << 10
	maxState      = 4 << 10
	maxNonce      = 256
	minNonce      = 16
	maxRedirect   = 1 << 10
	maxName       = 128
)

func checkBound(field, text string, most int) error {
	switch {
	case text == "":
		return structs.Invalidf("%s is empty", field)
	case len(text) > most:
		return structs.Invalidf("%s has %d bytes; expected at most %d", field, len(text), most)
	}
	return nil
}

// attempt runs an attempt to log in within the limits.
func (p Logins) attempt(source string, do func() (uint64, error)) (uint64, error) {
	if !p.Gate.Enabled() {
		return 0, structs.Preconditionf("access control is off on the server that leads, so nobody needs to log in: " +
			"set acl { enabled = true } in the configuration of the servers")
	}
	end, err := p.limits.Begin(source)
	if err != nil {
		return 0, err
	}

	index, err := do()
	end(err == nil)
	return index, err
}

// method returns an auth method of a type with its secrets. Without a name it is the default of the type.
func (p Logins) method(name, kind string) (authmethod.Method, error) {
	var none authmethod.Method
	tx := p.Store.Read()
	row := state.AuthMethod(tx, name)
	if name == "" {
		for m := range state.AuthMethods(tx) {
			if m.Default && m.Type == kind {
				row = m
			}
		}
	}
	switch {
	case row == nil && name == "":
		return none, structs.NotFoundf("no auth method of type %s is the default; name one of berth acl auth-method list",
			kind)
	case row == nil:
		return none, structs.NotFoundf("there is no auth method %q", structs.Cut(name, structs.MaxQuoted))
	case row.Type != kind:
		return none, structs.Invalidf("auth method %s is of type %s; expected %s", row.Name, row.Type, kind)
	}

	secrets, err := p.open(row)
	return authmethod.Method{AuthMethod: row, Secrets: secrets}, err
}

// TokenLogin makes a token for the holder of a JWT.
func (p Logins) TokenLogin(
	ctx context.Context, req *access.TokenLoginRequest, resp *access.TokenPutResponse,
) (uint64, error) {
	return p.attempt(req.Source, func() (uint64, error) {
		err := checkBound("LoginToken", string(req.LoginToken), maxLoginToken)
		if err != nil {
			return 0, err
		}
		m, err := p.method(req.AuthMethodName, access.MethodJWT)
		if err != nil {
			return 0, err
		}
		claims, err := p.issuers.VerifyToken(ctx, m, req.LoginToken)
		if err != nil {
			return 0, err
		}
		return p.makeToken(ctx, verifiedLogin{method: m.AuthMethod, claims: claims, now: req.Now}, resp)
	})
}
