package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"berth/internal/authmethod"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// loginTime bounds the time between the two steps of a login by OIDC.
const loginTime = 10 * time.Minute

// statePlace is the place for which the state of a login is encrypted.
const statePlace = "state of a login"

// oidcState is what the second step of a login needs of the first. It travels through the browser, encrypted
// with a root key as the state of the dialect, so no server has to keep it: a request without a token writes
// no row, and a new leader completes the login. Nobody but the servers can read the verifier of PKCE in it.
type oidcState struct {
	ID       string // of the mark that the login has made its token
	Method   string
	Redirect string
	Nonce    []byte // SHA-256 of the nonce of the caller
	Verifier string
	End      int64 // UnixNano
}

// AuthURL begins a login by OIDC.
func (p Logins) AuthURL(
	ctx context.Context, req *access.AuthURLRequest, resp *access.AuthURLResponse,
) (uint64, error) {
	return p.attempt(req.Source, func() (uint64, error) {
		err := checkStep(req.RedirectURI, req.ClientNonce)
		if err != nil {
			return 0, err
		}
		m, err := p.method(req.AuthMethodName, access.MethodOIDC)
		if err != nil {
			return 0, err
		}

		begun := oidcState{
			ID:       structs.NewID(),
			Method:   m.Name,
			Redirect: req.RedirectURI,
			Nonce:    hashSecret(req.ClientNonce),
			Verifier: rand.Text() + rand.Text(),
			End:      req.Now + int64(loginTime),
		}
		state, err := p.sealState(begun)
		if err != nil {
			return 0, err
		}
		resp.AuthURL, err = p.issuers.AuthURL(ctx, m, authmethod.Begun{
			RedirectURI: req.RedirectURI,
			Nonce:       req.ClientNonce,
			State:       state,
			Verifier:    access.Secret(begun.Verifier),
		})
		return p.Store.Index(), err
	})
}

func checkStep(redirect string, nonce access.Secret) error {
	err := checkBound("RedirectURI", redirect, maxRedirect)
	if err != nil {
		return err
	}
	if len(nonce) < minNonce || len(nonce) > maxNonce {
		return structs.Invalidf("ClientNonce has %d bytes; expected %d to %d, drawn at random for this login", len(nonce),
			minNonce, maxNonce)
	}
	return nil
}

func hashSecret(s access.Secret) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

// CompleteAuth ends a login by OIDC.
func (p Logins) CompleteAuth(
	ctx context.Context, req *access.CompleteAuthRequest, resp *access.TokenPutResponse,
) (uint64, error) {
	return p.attempt(req.Source, func() (uint64, error) {
		err := checkStep(req.RedirectURI, req.ClientNonce)
		if err == nil {
			err = checkBound("Code", string(req.Code), maxCode)
		}
		if err != nil {
			return 0, err
		}
		m, err := p.method(req.AuthMethodName, access.MethodOIDC)
		if err != nil {
			return 0, err
		}
		begun, err := p.openState(req)
		if err == nil {
			err = p.checkState(begun, m.AuthMethod, req)
		}
		if err != nil {
			return 0, err
		}

		claims, err := p.issuers.Exchange(ctx, m, authmethod.Begun{
			RedirectURI: req.RedirectURI,
			Nonce:       req.ClientNonce,
			State:       req.State,
			Verifier:    access.Secret(begun.Verifier),
		}, req.Code)
		if err != nil {
			return 0, err
		}
		return p.makeToken(ctx, verifiedLogin{
			method: m.AuthMethod,
			claims: claims,
			// The mark outlives the state: the clock of the next leader may be behind.
			mark: &access.LoginMark{ID: begun.ID, End: begun.End + int64(loginTime)},
			now:  req.Now,
		}, resp)
	})
}

// checkState checks that a login is the one that began, has not ended, and has made no token.
func (p Logins) checkState(begun oidcState, m *access.AuthMethod, req *access.CompleteAuthRequest) error {
	switch {
	case begun.End <= req.Now:
		return structs.Deniedf("the login began more than %s ago; log in again", loginTime)
	case begun.Method != m.Name || begun.Redirect != req.RedirectURI,
		subtle.ConstantTimeCompare(begun.Nonce, hashSecret(req.ClientNonce)) != 1:
		return structs.Deniedf("the login began with another AuthMethodName, RedirectURI or ClientNonce; " +
			"log in again")
	case req.Iss != "" && req.Iss != m.Config.OIDCDiscoveryURL:
		return structs.Deniedf("the browser comes from issuer %q; expected %q",
			structs.Cut(req.Iss, structs.MaxQuoted), m.Config.OIDCDiscoveryURL)
	case state.UsedLogin(p.Store.Read(), begun.ID):
		return structs.Deniedf("this login has made its token already; log in again")
	}
	return nil
}

// sealState returns a state as the text that travels through the browser: the ID of the key, and the rest.
func (p Logins) sealState(s oidcState) (access.Secret, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", structs.Internalf("encoding the state of a login failed")
	}
	sealed, err := p.Keys.Seal(statePlace, text)
	if err != nil {
		return "", withFirstKey(err, p.Keys)
	}
	return access.Secret(sealed.KeyID + "." + base64.RawURLEncoding.EncodeToString(sealed.Data)), nil
}

// openState reads the state of a login. The error does not tell a forged one from a damaged one.
func (p Logins) openState(req *access.CompleteAuthRequest) (s oidcState, err error) {
	err = checkBound("State", string(req.State), maxState)
	if err != nil {
		return s, err
	}

	key, data, _ := strings.Cut(string(req.State), ".")
	raw, err := base64.RawURLEncoding.DecodeString(data)
	if err != nil {
		return s, structs.Deniedf("State is not one that a server has made; log in again")
	}
	text, err := p.Keys.Open(statePlace, &structs.Sealed{KeyID: structs.Cut(key, maxName), Data: raw})
	switch {
	case structs.IsKind(err, structs.KindPrecondition):
		return s, structs.Deniedf("State is encrypted with a root key that this server does not have; log in again")
	case err != nil:
		return s, structs.Deniedf("State is not one that a server has made; log in again")
	}
	err = json.Unmarshal(text, &s)
	if err != nil {
		return s, structs.Deniedf("State is of another version of berth; log in again")
	}
	return s, nil
}

// withFirstKey tells how a cluster without a root key gets one.
func withFirstKey(err error, keys interface{ Active() string }) error {
	if keys.Active() == "" {
		return fmt.Errorf("%w; a cluster gets its first one by berth operator root keyring init", err)
	}
	return err
}
