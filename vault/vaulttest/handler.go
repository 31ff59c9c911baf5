package vaulttest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	s.calls = append(s.calls, r.Method+" "+path)
	s.namings = append(s.namings, r.Header.Get("X-Vault-Namespace"))
	switch {
	case s.Answer != nil:
		s.Answer.ServeHTTP(w, r)
		return
	case path == "sys/health":
		answer(w, http.StatusOK, map[string]any{"initialized": true, "sealed": s.Sealed, "version": "1.14.10",
			"cluster_name": "test", "cluster_id": "c1"})
		return
	case r.Header.Get("X-Vault-Request") != "true":
		reject(w, http.StatusBadRequest, "no header")
		return
	case s.Sealed:
		reject(w, http.StatusServiceUnavailable, "Vault is sealed")
		return
	}

	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	if path == "auth/jwt-nomad/login" {
		s.login(w, r.Context(), body)
		return
	}

	secret := r.Header.Get("X-Vault-Token")
	t := s.tokens[secret]
	if t == nil || !t.live() {
		reject(w, http.StatusForbidden, "permission denied")
		return
	}

	if !s.serveToken(w, path, secret, t, body) {
		s.serveSecret(w, r, path, secret, body)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func reject(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]any{"errors": []string{text}})
}

// login exchanges a JWT for a token.
func (s *Server) login(w http.ResponseWriter, ctx context.Context, body map[string]any) {
	text, _ := body["jwt"].(string)
	name, _ := body["role"].(string)
	if name == "" {
		name = s.DefaultRole
	}

	role, ok := s.Roles[name]
	if !ok {
		reject(w, http.StatusBadRequest, "role \""+name+"\" could not be found")
		return
	}

	verify := s.Verify
	if verify == nil {
		verify = func(text string) (map[string]any, error) { return s.fetchAndVerify(ctx, text, role) }
	}

	claims, err := verify(text)
	if err != nil {
		// Some of its messages repeat a part of the request, so this one does.
		reject(w, http.StatusBadRequest, "error validating token "+text+": "+err.Error())
		return
	}

	for claim, want := range role.Claims {
		if claims[claim] != want {
			reject(w, http.StatusBadRequest, "claim \""+claim+"\" does not match any associated bound claim values")
			return
		}
	}

	t := &token{role: role, end: time.Now().Add(role.TTL)}
	if role.MaxTTL > 0 {
		t.max = time.Now().Add(role.MaxTTL)
	}

	secret := s.name("hvs.secret-token-")
	s.tokens[secret] = t
	answer(w, http.StatusOK, map[string]any{"auth": authOf(secret, t)})
}

func authOf(secret string, t *token) map[string]any {
	return map[string]any{
		"client_token":   secret,
		"accessor":       "accessor-" + secret[len(secret)-4:],
		"lease_duration": int64(time.Until(t.end).Round(time.Second) / time.Second),
		"renewable":      !t.role.Batch,
	}
}

// fetchAndVerify verifies a JWT with the keys of the URL, as Vault does.
func (s *Server) fetchAndVerify(ctx context.Context, text string, role Role) (map[string]any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.JWKSURL, nil)
	if err != nil {
		return nil, err
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, errors.New("error fetching keys")
	}
	defer func() { _ = resp.Body.Close() }()

	var keys jose.JSONWebKeySet
	if err := json.NewDecoder(resp.Body).Decode(&keys); err != nil {
		return nil, err
	}

	parsed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256, jose.EdDSA})
	if err != nil || len(parsed.Headers) != 1 {
		return nil, errors.New("it is no JWT")
	}

	found := keys.Key(parsed.Headers[0].KeyID)
	if len(found) != 1 {
		return nil, errors.New("no known key has signed it")
	}

	var standard jwt.Claims
	claims := map[string]any{}
	if err := parsed.Claims(found[0].Key, &standard, &claims); err != nil {
		return nil, err
	}
	return claims, standard.Validate(jwt.Expected{AnyAudience: jwt.Audience{role.Audience}, Time: time.Now()})
}

// serveToken answers calls about the token itself, and reports whether it is one.
func (s *Server) serveToken(
	w http.ResponseWriter, path, secret string, t *token, body map[string]any,
) bool {
	switch path {
	case "auth/token/renew-self":
		if t.role.Batch {
			reject(w, http.StatusBadRequest, "lease is not renewable")
			return true
		}
		t.end = time.Now().Add(capped(t.role.TTL, t.max))
		answer(w, http.StatusOK, map[string]any{"auth": authOf(secret, t)})
	case "auth/token/lookup-self":
		answer(w, http.StatusOK, map[string]any{"data": map[string]any{
			"ttl":       int64(time.Until(t.end) / time.Second),
			"renewable": !t.role.Batch,
		}})
	case "auth/token/revoke-self":
		t.revoked = true
		w.WriteHeader(http.StatusNoContent)
	case "sys/leases/renew":
		id, _ := body["lease_id"].(string)
		l := s.leases[id]
		if l == nil || time.Now().After(l.end) {
			reject(w, http.StatusBadRequest, "lease not found")
			return true
		}
		l.end = time.Now().Add(capped(s.LeaseTTL, l.max))
		answer(w, http.StatusOK, leaseOf(id, l, nil))
	default:
		return false
	}
	return true
}

func leaseOf(id string, l *lease, data map[string]any) map[string]any {
	return map[string]any{
		"lease_id":       id,
		"lease_duration": int64(time.Until(l.end).Round(time.Second) / time.Second),
		"renewable":      true,
		"data":           data,
	}
}

// serveSecret answers reads of secrets.
func (s *Server) serveSecret(
	w http.ResponseWriter, r *http.Request, path, secret string, body map[string]any,
) {
	if mount, ok := strings.CutPrefix(path, "sys/internal/ui/mounts/"); ok {
		engine, _, _ := strings.Cut(mount, "/")
		options := map[string]any{"secret": map[string]any{"version": "2"}}[engine]
		answer(w, http.StatusOK, map[string]any{"data": map[string]any{"path": engine + "/", "options": options}})
		return
	}

	role := s.tokens[secret].role
	if !slices.ContainsFunc(role.Paths, func(p string) bool { return strings.HasPrefix(path, p) }) {
		reject(w, http.StatusForbidden, "1 error occurred: permission denied")
		return
	}

	engine, rest, _ := strings.Cut(path, "/")
	kind, name, _ := strings.Cut(rest, "/")
	switch {
	case r.Method != http.MethodGet:
		data := maps.Clone(body)
		data["written"] = path
		answer(w, http.StatusOK, map[string]any{"data": data})
	case engine == "secret" && kind == "data" && s.KV2[name] != nil:
		answer(w, http.StatusOK, map[string]any{"data": map[string]any{"data": s.KV2[name],
			"metadata": map[string]any{"version": 1, "asked": r.URL.Query().Get("version")}}})
	case engine == "secret" && kind == "metadata" && r.URL.Query().Get("list") == "true":
		answer(w, http.StatusOK, map[string]any{"data": map[string]any{
			"keys": slices.Sorted(maps.Keys(s.KV2))}})
	case engine == "kv" && s.KV1[rest] != nil:
		answer(w, http.StatusOK, map[string]any{"lease_duration": 2764800, "data": s.KV1[rest]})
	case engine == "database":
		id := s.name("database/creds/")
		l := &lease{token: secret, end: time.Now().Add(s.LeaseTTL)}
		if s.LeaseMax > 0 {
			l.max = time.Now().Add(s.LeaseMax)
		}
		s.leases[id] = l
		answer(w, http.StatusOK, leaseOf(id, l, map[string]any{"password": "of " + id}))
	default:
		answer(w, http.StatusNotFound, map[string]any{"errors": []string{}})
	}
}
