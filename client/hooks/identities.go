package hooks

import (
	"time"

	"berth/structs"
)

// Identities are the signed identities of one allocation. The agent renews them until the allocation has
// ended.
type Identities interface {
	// Token returns the newest token of an identity of a workload. kind is identity.KindTask or
	// identity.KindService, and workload the name of the task or service. Without a token, ok is false: the
	// job does not have the identity, the servers reject it, or have not answered since the agent started.
	Token(kind, workload, name string) (token Token, ok bool)
	// Changed returns a channel that closes at the next change of any token, the same one until then. Call it
	// before Token.
	Changed() <-chan struct{}
}

// Token is a signed identity.
type Token struct {
	JWT     structs.Secret
	Expires time.Time // the zero time: it ends with its allocation
	Renew   time.Time // from which the agent asks for the next token
}

// Token is as in Identities. ok is false if the job asks for no identity.
func (e *AllocEnv) Token(kind, workload, name string) (token Token, ok bool) {
	if e.Identities == nil {
		return Token{}, false
	}
	return e.Identities.Token(kind, workload, name)
}

// TokensChanged is Changed of Identities. The channel never closes if the job asks for no identity.
func (e *AllocEnv) TokensChanged() <-chan struct{} {
	if e.Identities == nil {
		return nil
	}
	return e.Identities.Changed()
}
