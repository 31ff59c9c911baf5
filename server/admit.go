package server

import (
	"context"

	"github.com/hashicorp/go-metrics"

	"berth/internal/loadshed"
)

// Gate decides which reads are let in. What it let in already where requests come in (loadshed.Ticket), Call does
// not ask it for again.
func (s *Server) Gate() *loadshed.Gate { return s.gate }

// admit decides, for as long as the server lives, which reads it refuses so that others are answered.
func (s *Server) admit(ctx context.Context) {
	labels := []metrics.Label{{Name: "limit", Value: "reads"}}
	err := s.gate.Run(ctx, func(refused int) {
		metrics.IncrCounterWithLabels([]string{"rpc", "refused"}, float32(refused), labels)
	})
	if err != nil {
		s.logger.Warn("reads are not refused when there are too many", "error", err)
	}
}
