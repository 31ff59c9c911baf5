package csihooks

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"time"

	"berth/client/csi/registry"
	"berth/client/hooks"
	"berth/client/hooks/identities"
	"berth/csi"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// TokenSigner gets the signed identities that drivers ask for, and puts them into the arguments of
// NodePublishVolume. The servers sign them for the allocation that uses the volume. No record and no text
// has a token: a node that starts again asks for others.
type TokenSigner struct {
	Servers rpc.Caller
	Node    func() (id, secretID string)
}

// token is one of the value that drivers read.
type token struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expirationTimestamp"`
}

// Add puts the tokens that an instance of a plugin asks for into the arguments of a call for an allocation,
// in the place that it asks for. It returns the time from which others are due, the zero time if it asks for
// none. A rejection of the servers is a precondition.
func (s TokenSigner) Add(
	ctx context.Context, allocID string, plugin *registry.Instance, args *csi.Use,
) (renew time.Time, err error) {
	if len(plugin.Tokens) == 0 {
		return time.Time{}, nil
	}

	req := &access.SignRequest{}
	req.NodeID, req.SecretID = s.Node()
	for _, t := range plugin.Tokens {
		req.Identities = append(req.Identities, access.WantedIdentity{
			AllocID:  allocID,
			Kind:     access.IdentityOfVolume,
			Workload: plugin.ID,
			Name:     t.Audience,
		})
	}

	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	begin := time.Now()
	resp, err := rpc.Call(ctx, s.Servers, access.IdentitySign, req)
	if err != nil {
		return time.Time{}, err
	}

	text, renew, err := readTokens(plugin, req.Identities, resp.Signed, begin)
	if err != nil {
		return time.Time{}, err
	}

	// Both maps belong to the claim, which others read.
	if plugin.TokensIn == structs.TokensInSecrets {
		args.Secrets = with(args.Secrets, text)
		return renew, checkSize(plugin, args.Secrets)
	}
	args.VolumeContext = with(args.VolumeContext, text)
	return renew, checkSize(plugin, args.VolumeContext)
}

// checkSize rejects a map that is larger than a driver has to accept (CSI spec, "Size Limits").
func checkSize(plugin *registry.Instance, m map[string]string) error {
	total := 0
	for k, v := range m {
		total += len(k) + len(v)
	}
	if total <= structs.MaxCSIMap {
		return nil
	}
	return structs.Preconditionf(
		"plugin %q: %s has %d bytes with the %d tokens that it asks for; CSI allows %d: let its job ask for fewer",
		plugin.ID, cmp.Or(plugin.TokensIn, structs.TokensInContext), total, len(plugin.Tokens), structs.MaxCSIMap)
}

func with(m map[string]string, text string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[csi.TokensKey] = text
	return m
}

// readTokens returns the value for the driver, and the time from which the first of its tokens is to be
// replaced.
func readTokens(
	plugin *registry.Instance, wanted []access.WantedIdentity, signed []access.SignedIdentity, at time.Time,
) (text string, renew time.Time, err error) {
	if len(signed) != len(wanted) {
		return "", renew, structs.Internalf("the servers answered with %d tokens for %d", len(signed), len(wanted))
	}

	all := map[string]token{}
	for n, one := range signed {
		switch {
		case one.WantedIdentity != wanted[n]:
			return "", renew, structs.Internalf("the servers answered with a token of another kind")
		case one.Rejection != "":
			return "", renew, structs.Preconditionf("plugin %q: its token for %q: %s", plugin.ID, wanted[n].Name,
				structs.Cut(one.Rejection, structs.MaxReason))
		case !identities.IsToken(string(one.JWT)):
			return "", renew, structs.Internalf("the servers answered without a token for %q", wanted[n].Name)
		}

		held := identities.TokenOf(one, plugin.Tokens[n].TTL, at)
		renew = earlier(renew, held)
		all[wanted[n].Name] = token{string(one.JWT), time.Unix(0, one.Expiration).UTC()}
	}

	b, err := json.Marshal(all)
	return string(b), renew, err
}

// earlier returns the time at which the first of some tokens is to be replaced.
func earlier(at time.Time, t hooks.Token) time.Time {
	if at.IsZero() || t.Renew.Before(at) {
		return t.Renew
	}
	return at
}
