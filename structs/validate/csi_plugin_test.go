package validate

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/validate/field"
)

func token(audience string) *structs.CSIToken {
	return &structs.CSIToken{Audience: audience, TTL: time.Hour}
}

func TestCheck_OfTokens(t *testing.T) {
	long := strings.Repeat("x", structs.MaxName+1)
	for _, c := range []struct {
		want string // "" for a valid block
		edit func(*structs.CSIPluginConfig)
	}{
		{"", func(*structs.CSIPluginConfig) {}},
		{"", func(c *structs.CSIPluginConfig) { c.TokensIn = structs.TokensInSecrets }},
		{"", func(c *structs.CSIPluginConfig) { c.Type = structs.CSIPluginMonolith }},
		{"", func(c *structs.CSIPluginConfig) { c.Tokens = append(c.Tokens, token("b")) }},
		{"", func(c *structs.CSIPluginConfig) {
			c.Tokens = nil
			c.TokensIn = ""
			c.RequiresRepublish = false
		}},
		{"token 1: it is null", func(c *structs.CSIPluginConfig) { c.Tokens[0] = nil }},
		{"audience is required", func(c *structs.CSIPluginConfig) { c.Tokens[0].Audience = "" }},
		{"audience has 256 bytes", func(c *structs.CSIPluginConfig) { c.Tokens[0].Audience = long }},
		{"is that of another token", func(c *structs.CSIPluginConfig) {
			c.Tokens = append(c.Tokens, token("a"))
		}},
		{"no token for the API", func(c *structs.CSIPluginConfig) { c.Tokens[0].Audience = "nomadproject.io" }},
		{"ttl 59s must be at least 1m", func(c *structs.CSIPluginConfig) { c.Tokens[0].TTL = 59 * time.Second }},
		{"ttl", func(c *structs.CSIPluginConfig) { c.Tokens[0].TTL = structs.MaxIdentityTTL + 1 }},
		{"at most 16", func(c *structs.CSIPluginConfig) {
			for len(c.Tokens) <= structs.MaxAudiences {
				c.Tokens = append(c.Tokens, token(strings.Repeat("b", len(c.Tokens))))
			}
		}},
		{"has no such call", func(c *structs.CSIPluginConfig) { c.Type = structs.CSIPluginController }},
		{"tokens_in \"env\"", func(c *structs.CSIPluginConfig) { c.TokensIn = "env" }},
		{"tokens_in needs a token", func(c *structs.CSIPluginConfig) { c.Tokens = nil }},
		{"requires_republish needs a token", func(c *structs.CSIPluginConfig) { c.Tokens = nil }},
	} {
		block := &structs.CSIPluginConfig{
			ID:                  "p",
			Type:                structs.CSIPluginNode,
			MountDir:            structs.DefaultPluginMountDir,
			StagePublishBaseDir: structs.DefaultPluginStageDir,
			HealthTimeout:       time.Second,
			Tokens:              []*structs.CSIToken{token("a")},
			TokensIn:            structs.TokensInContext,
			RequiresRepublish:   true,
		}
		c.edit(block)
		f := field.New("csi_plugin")
		checkCSIPlugin(f, block)
		err := f.Err()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got %v, want %q", block, err, c.want)
		}
	}
}
