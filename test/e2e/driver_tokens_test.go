package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/structs"
)

// driverToken is a token that a driver has got with a call.
type driverToken struct {
	Token   string `json:"token"`
	Expires string `json:"expirationTimestamp"`
}

// tokens returns the tokens for an audience that the driver has got for a volume, the oldest first.
func (st *shelfDir) tokens(volume, place, audience string) (found []string, err error) {
	for line := range strings.Lines(st.read("tokens")) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) != 3 || words[0] != "shelf-"+volume || words[1] != place {
			return nil, fmt.Errorf("the driver recorded %q", line)
		}
		all := map[string]driverToken{}
		err := json.Unmarshal([]byte(words[2]), &all)
		if err != nil || len(all) != 1 || all[audience].Expires == "" {
			return nil, fmt.Errorf("the driver got the tokens %q: %w", words[2], err)
		}
		found = append(found, all[audience].Token)
	}
	return slices.Compact(found), nil
}

// claimsOf returns the claims of a token, which the servers have signed.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("a token with %d parts", len(parts))
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := json.Unmarshal(b, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// A real driver gets a token of the allocation that uses the volume, and another one while the task runs on.
func TestDriverTokens_ArriveAndAreRenewed(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	st.settings = `
        tokens_in          = "secrets"
        requires_republish = true
        token {
          audience = "vault"
          ttl      = "1m"
        }`
	a := newAgent(t, "n0", "-server", "-client", "-bootstrap-expect", "1").allowRaw().withKeyring()
	a.start()
	a.must("job", "run", "-detach", st.writePluginJob(a, "shelf", "system", "monolith"))
	a.healthyNodes("shelf", 1)
	st.createVolume(a, "data", 300)
	a.runUntilOutput(appendingJob("data", "n0", "fine"), "fine")
	alloc := a.awaitRunning("data", 1)[0]

	var found []string
	eventually(t, "the driver gets a second token", func() (err error) {
		found, err = st.tokens("data", structs.TokensInSecrets, "vault")
		if err == nil && len(found) < 2 {
			err = fmt.Errorf("it has got %d", len(found))
		}
		return err
	})
	for _, token := range found {
		claims := claimsOf(t, token)
		if claims["aud"] != "vault" || claims["nomad_allocation_id"] != alloc.ID || claims["exp"] == nil {
			t.Errorf("the claims are %v", claims)
		}
	}
	if again := a.awaitRunning("data", 1)[0]; again.ID != alloc.ID || again.TaskStates["t"].Restarts != 0 {
		t.Errorf("the renewal disturbed the task: %+v", again)
	}
	if calls := st.read("calls"); strings.Contains(calls, "eyJ") {
		t.Error("the driver's record of calls has a token")
	}
	a.must("job", "stop", "-purge", "data")
	a.must("job", "stop", "-purge", "shelf")
}
