package consul

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/structs"
)

// DefaultAuthMethod is the auth method of Consul at which workloads log in, as in the dialect.
const DefaultAuthMethod = "nomad-workloads"

// LoginToken is a token of Consul that a workload has got by its identity. No call extends its life.
type LoginToken struct {
	Secret Secret
	TTL    time.Duration // from now; 0: it has no end
}

// tokenKey is the key of the token in a context.
type tokenKey struct{}

// WithToken returns a context whose calls have a token in the place of the agent's.
func WithToken(ctx context.Context, token Secret) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// tokenOf returns the token of a context, "" for the agent's.
func tokenOf(ctx context.Context) Secret {
	token, _ := ctx.Value(tokenKey{}).(Secret)
	return token
}

// LogIn exchanges the JWT of a workload for a token, at the auth method for services or for tasks. meta tells
// the operators of Consul for which workload the token is.
func (l *Link) LogIn(
	ctx context.Context, service bool, jwt Secret, meta map[string]string,
) (*LoginToken, error) {
	method := l.config.TaskAuthMethod
	if service {
		method = l.config.ServiceAuthMethod
	}

	params := &api.ACLLoginParams{AuthMethod: method, BearerToken: string(jwt), Meta: meta}
	t, _, err := l.client.ACL().Login(params, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return nil, explainLogin("logging in at the auth method "+method+" of Consul", err)
	}
	return loginToken(t)
}

// LookUpToken returns what Consul knows of a token. The error is denied for one that has ended.
func (l *Link) LookUpToken(ctx context.Context, token Secret) (*LoginToken, error) {
	if token == "" {
		return nil, structs.Errorf(structs.KindDenied, "there is no token of Consul")
	}

	ctx = WithToken(ctx, token)
	t, _, err := l.client.ACL().TokenReadSelf((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, explainLogin("looking up a token of Consul", err)
	}
	return loginToken(t)
}

// LogOut ends a token that LogIn has returned. One that Consul does not have has ended.
func (l *Link) LogOut(ctx context.Context, token Secret) error {
	if token == "" { // or the call would be about the agent's token
		return nil
	}

	ctx = WithToken(ctx, token)
	_, err := l.client.ACL().Logout((&api.WriteOptions{}).WithContext(ctx))
	if err == nil || statusOf(err) == http.StatusForbidden || statusOf(err) == http.StatusNotFound {
		return nil
	}
	return explainLogin("logging out of Consul", err)
}

// explainLogin gives an error of a login its kind.
func explainLogin(doing string, err error) error {
	switch statusOf(err) {
	case http.StatusForbidden:
		return structs.Errorf(structs.KindDenied, "%s: %w", doing, err)
	case http.StatusUnauthorized:
		return structs.Preconditionf("%s: the ACLs of Consul are off: %w", doing, err)
	}
	return structs.Unavailablef("%s: %w", doing, err)
}

func loginToken(t *api.ACLToken) (*LoginToken, error) {
	if t == nil || t.SecretID == "" || len(t.SecretID) > maxToken {
		return nil, structs.Internalf("the answer of Consul has no token")
	}

	out := &LoginToken{Secret: Secret(t.SecretID)}
	if t.ExpirationTime != nil {
		out.TTL = max(time.Until(*t.ExpirationTime), time.Second)
	}
	return out, nil
}
