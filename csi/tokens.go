package csi

import (
	"encoding/json"
	"maps"
)

// TokensKey is the key below which a driver finds the tokens of the workload that uses a volume, among the
// secrets or in the context of the volume. The value is in JSON: an object with "token" and
// "expirationTimestamp" by each audience.
const TokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// secretsOf finds the values of a request message that no text may show, if it carries any.
func secretsOf(req any) map[string]string {
	// All generated messages with these have the getters.
	var found map[string]string
	s, ok := req.(interface{ GetSecrets() map[string]string })
	if ok {
		found = s.GetSecrets()
	}

	text := found[TokensKey]
	v, ok := req.(interface{ GetVolumeContext() map[string]string })
	if ok && text == "" {
		text = v.GetVolumeContext()[TokensKey]
	}
	if text == "" {
		return found
	}
	return withTokens(found, text)
}

// withTokens adds the value of TokensKey to secrets, and each token in it by itself.
func withTokens(secrets map[string]string, text string) map[string]string {
	all := maps.Clone(secrets)
	if all == nil {
		all = map[string]string{}
	}

	all[TokensKey] = text
	var tokens map[string]struct {
		Token string `json:"token"`
	}
	err := json.Unmarshal([]byte(text), &tokens)
	if err != nil {
		return all // a text of the volume itself
	}

	for audience, t := range tokens {
		all[TokensKey+" "+audience] = t.Token
	}
	return all
}
