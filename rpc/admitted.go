package rpc

import (
	"context"

	"berth/internal/loadshed"
)

// shedHere is shed for a request of this process, which a gate may have let in where it came in.
func (s *Server) shedHere(ctx context.Context, e *Endpoint, req any) error {
	if s.gate != nil && (s.gate.Refuses() || s.gate.Passing().Refuses()) && loadshed.Admitted(ctx) {
		return nil
	}
	return s.shed(e, req)
}
