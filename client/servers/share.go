package servers

import (
	"context"
	"time"

	"berth/internal/coalesce"
	"berth/rpc"
	"berth/structs"
)

// Shared is a caller that makes one call of what many allocations claim, or release, at about the same time:
// those that come while a call is under way share the next one. All else it passes on. A request that is
// refused together with others is made once more alone, for the fault may be another's.
type Shared struct {
	rpc.Caller
	claims   coalesce.Batcher[origin, *claiming]
	releases coalesce.Batcher[origin, *releasing]
}

// shareMost is how many requests one call carries, and shareTimeout how long it may take.
const (
	shareMost    = 256
	shareTimeout = 30 * time.Second
)

// origin is what requests have in common that can be made together.
type origin struct {
	node, secret string
	options      structs.WriteOptions
}

type claiming struct {
	claims, answer []*structs.CSIClaim
	alone          bool
}

type releasing struct {
	claims, readOnly []structs.CSIClaimKey
	alone            bool
}

// Share makes a Shared of a caller.
func Share(caller rpc.Caller) *Shared {
	s := &Shared{Caller: caller}
	s.claims.Most, s.claims.Propose = shareMost, s.claim
	s.releases.Most, s.releases.Propose = shareMost, s.release
	return s
}

// Call implements rpc.Caller.
func (s *Shared) Call(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case *structs.CSIVolumeClaimRequest:
		if method == structs.CSIVolumeClaim.Name {
			one := &claiming{claims: r.Claims}
			index, err := s.claims.Do(ctx, origin{r.NodeID, r.SecretID, r.WriteOptions}, one)
			if err == nil {
				answer := resp.(*structs.CSIVolumeClaimResponse)
				answer.Claims, answer.Index = one.answer, index
			}
			if err == nil || !structs.KindOf(err).Final() || one.alone {
				return err
			}
		}
	case *structs.CSIVolumeUnpublishRequest:
		if method == structs.CSIVolumeUnpublish.Name && r.Operator == "" {
			one := &releasing{claims: r.Claims, readOnly: r.TurnedReadOnly}
			index, err := s.releases.Do(ctx, origin{r.NodeID, r.SecretID, r.WriteOptions}, one)
			if err == nil {
				resp.(*structs.Empty).Index = index
			}
			if err == nil || !structs.KindOf(err).Final() || one.alone {
				return err
			}
		}
	}
	return s.Caller.Call(ctx, method, req, resp)
}

func (s *Shared) claim(ctx context.Context, of origin, all []*claiming) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	req := &structs.CSIVolumeClaimRequest{NodeID: of.node, SecretID: of.secret, WriteOptions: of.options}
	for _, one := range all {
		one.alone = len(all) == 1
		req.Claims = append(req.Claims, one.claims...)
	}
	resp, err := rpc.Call(ctx, s.Caller, structs.CSIVolumeClaim, req)
	if err != nil {
		return 0, err
	}
	rest := resp.Claims // in the order of the request
	for _, one := range all {
		n := min(len(one.claims), len(rest))
		one.answer, rest = rest[:n:n], rest[n:]
	}
	return resp.Index, nil
}

func (s *Shared) release(ctx context.Context, of origin, all []*releasing) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	req := &structs.CSIVolumeUnpublishRequest{NodeID: of.node, SecretID: of.secret, WriteOptions: of.options}
	for _, one := range all {
		one.alone = len(all) == 1
		req.Claims = append(req.Claims, one.claims...)
		req.TurnedReadOnly = append(req.TurnedReadOnly, one.readOnly...)
	}
	resp, err := rpc.Call(ctx, s.Caller, structs.CSIVolumeUnpublish, req)
	if err != nil {
		return 0, err
	}
	return resp.Index, nil
}
