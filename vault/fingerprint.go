package vault

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"berth/structs"
)

// maxHealth bounds the answer about the state of Vault, in bytes.
const maxHealth = 16 << 10

// Attributes asks Vault for its state, and returns the attributes of a node that reaches it, by their names
// in the dialect. A Vault that is sealed or on standby answers, too.
func (c *Client) Attributes(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := c.request(ctx, request{method: http.MethodGet, path: "sys/health"})
	if err != nil {
		return nil, err
	}

	// The root namespace alone has the state.
	req.Header.Del("X-Vault-Namespace")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, structs.Unavailablef("asking Vault at %s: no answer", c.cfg.Address)
	}
	defer func() { _ = resp.Body.Close() }()

	var state struct {
		Initialized bool   `json:"initialized"`
		Sealed      bool   `json:"sealed"`
		Version     string `json:"version"`
		ClusterName string `json:"cluster_name"`
		ClusterID   string `json:"cluster_id"`
	}

	// Each state has a status of its own, so the body alone tells whether this is Vault.
	err = json.NewDecoder(io.LimitReader(resp.Body, maxHealth)).Decode(&state)
	if err != nil || state.Version == "" {
		return nil, structs.Unavailablef("asking Vault at %s: the answer %d is none of its state", c.cfg.Address,
			resp.StatusCode)
	}

	out := map[string]string{"vault.accessible": strconv.FormatBool(state.Initialized && !state.Sealed)}
	for name, value := range map[string]string{
		"vault.version":      state.Version,
		"vault.cluster_name": state.ClusterName,
		"vault.cluster_id":   state.ClusterID,
	} {
		if value != "" {
			out[name] = structs.Cut(value, structs.MaxName)
		}
	}
	return out, nil
}
