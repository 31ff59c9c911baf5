package authmethod

import (
	"context"
	"sync"
	"time"

	"berth/structs"
	"berth/structs/access"
)

const (
	// maxAge is how long the keys and the description of a provider are used. A key that the provider has
	// withdrawn works no longer than that.
	maxAge = 5 * time.Minute
	// retryAfter is the time after a failure in which no other login reads the description again.
	retryAfter = 2 * time.Second
	// mostKept bounds the methods whose keys are in memory. There are no more methods than that.
	mostKept = 128
)

// Cache has the keys and descriptions of providers, by auth method. One login reads a method's at a time, and
// the others wait for it. It is safe for many goroutines.
type Cache struct {
	now func() time.Time

	mu   sync.Mutex
	kept map[string]*slot
}

// slot is the place of one method.
type slot struct {
	mu       sync.Mutex
	index    uint64 // ModifyIndex of the method
	since    time.Time
	verifier *verifier // nil after a failure
	failure  error
}

// NewCache returns an empty cache.
func NewCache(now func() time.Time) *Cache {
	return &Cache{now: now, kept: map[string]*slot{}}
}

// Method is a version of an auth method with its secrets.
type Method struct {
	*access.AuthMethod
	Secrets access.AuthSecrets
}

// VerifyToken returns the claims of a JWT. The error is denied if it is not valid for the method, and
// unavailable if the keys of its issuer cannot be read.
func (c *Cache) VerifyToken(ctx context.Context, m Method, token access.Secret) (map[string]any, error) {
	v, err := c.verifier(m)
	if err != nil {
		return nil, err
	}
	return v.verifyToken(ctx, token)
}

// AuthURL returns the address at the provider that the browser visits. The errors are invalid for a
// RedirectURI that the method does not allow, and unavailable.
func (c *Cache) AuthURL(ctx context.Context, m Method, b Begun) (string, error) {
	v, err := c.verifier(m)
	if err != nil {
		return "", err
	}
	return v.authURL(ctx, b)
}

// Exchange gives the code of a browser to the provider and returns the claims of the person. The errors are
// as in VerifyToken.
func (c *Cache) Exchange(ctx context.Context, m Method, b Begun, code access.Secret) (map[string]any, error) {
	v, err := c.verifier(m)
	if err != nil {
		return nil, err
	}
	return v.exchange(ctx, b, code)
}

// verifier returns the one of a version of a method.
func (c *Cache) verifier(m Method) (*verifier, error) {
	s, err := c.slot(m.Name)
	if err != nil {
		return nil, err
	}

	// The provider is called while the slot is locked: there is at most one such call for each method.
	s.mu.Lock()
	defer s.mu.Unlock()
	age := c.now().Sub(s.since)
	if s.index == m.ModifyIndex && s.verifier != nil && age < maxAge {
		return s.verifier, nil
	}
	if s.index == m.ModifyIndex && s.failure != nil && age < retryAfter {
		return nil, s.failure
	}

	// Logins that use the former one end with it. Its connections are closed when they have been idle.
	v, err := newVerifier(m.AuthMethod, m.Secrets, c.now)
	s.index = m.ModifyIndex
	s.since = c.now()
	s.verifier = v
	s.failure = err
	return v, err
}

// slot returns the place of a method. It forgets the places of methods that nobody has used for long.
func (c *Cache) slot(name string) (*slot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.kept[name]
	if s != nil {
		return s, nil
	}

	if len(c.kept) >= mostKept {
		for other, s := range c.kept {
			if s.mu.TryLock() {
				if c.now().Sub(s.since) > maxAge {
					delete(c.kept, other)
				}
				s.mu.Unlock()
			}
		}
	}
	if len(c.kept) >= mostKept {
		return nil, structs.Busy(maxAge, "logins by %d auth methods are under way", mostKept)
	}
	s = &slot{}
	c.kept[name] = s
	return s, nil
}
