package rpc

import (
	"berth/internal/admission"
	"berth/structs"
)

// Shed has a gate decide, before anything is served, which requests are let in to endpoints that say so
// (Endpoint.Sheds). Those that another server let in already, that wait for news, or that a node makes about
// itself are let in anyway. The gate's Run is the caller's to run.
func (s *Server) Shed(g *admission.Gate) { s.gate = g }

// shed refuses a request that may be refused, while there are too many.
func (s *Server) shed(e *Endpoint, req any) error {
	if s.gate == nil || !e.Sheds {
		return nil
	}
	if r, ok := req.(interface{ Query() *structs.QueryOptions }); ok {
		if q := r.Query(); q.Forwarded || q.MinIndex > 0 {
			return nil
		}
	}
	if r, ok := req.(interface {
		Credentials() (nodeID, secretID string)
	}); ok {
		if _, secret := r.Credentials(); secret != "" {
			return nil
		}
	}
	again, ok := s.gate.Admit()
	if ok {
		return nil
	}
	return &structs.Error{Kind: structs.KindUnavailable, Text: "this server is asked for more than it can answer", RetryAfter: again}
}
