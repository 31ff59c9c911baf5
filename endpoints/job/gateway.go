package job

import (
	"context"
	"fmt"

	"berth/structs"
)

// setGateways gives Consul the configuration entries of the gateways of a job, before the job is registered:
// the proxy of a gateway without one leads nowhere. The entries stay in Consul after the end of the job. If
// this server does not lead any more and cannot register the job, the next leader writes them again.
func (j Jobs) setGateways(ctx context.Context, job *structs.Job) error {
	for _, g := range job.TaskGroups {
		if g == nil {
			continue
		}

		for _, s := range g.Services {
			if s == nil || s.Connect == nil || !s.Connect.Gateway.HasEntry() {
				continue
			}

			if j.Consul == nil {
				return structs.Preconditionf("service %q: the servers write the configuration entry of a gateway, "+
					"and they use no Consul: they need a consul block with an address", s.Name)
			}

			err := j.Consul.SetGateway(ctx, s.Name, s.Connect.Gateway)
			if err != nil {
				return fmt.Errorf("service %q: %w", s.Name, err)
			}
		}
	}
	return nil
}
