package clitest

import (
	"context"
	"strings"

	"berth/api/apitest"
	"berth/structs"
)

// answerSearch answers searches by the beginnings of IDs. A volume has the ID of a job, a
// namespace the beginning of one, and a plugin the ID of a volume.
func (w *Cluster) answerSearch() {
	ids := map[string][]string{
		structs.SearchJobs:        {"web", "prod-db"},
		structs.SearchAllocs:      {Alloc1, Alloc2},
		structs.SearchEvals:       {"e1e1e1e1-0000-0000-0000-000000000001"},
		structs.SearchDeployments: {"d1d1d1d1-0000-0000-0000-000000000001"},
		structs.SearchVolumes:     {"data", "web", "website", "hostpath-data"},
		structs.SearchPlugins:     {"hostpath"},
		structs.SearchNodes:       {Node1},
		structs.SearchNamespaces:  {"prod"},
		structs.SearchVars:        {"prod/password"},
	}
	apitest.On(w.Caller, structs.SearchPrefix,
		func(_ context.Context, r *structs.SearchRequest) (*structs.SearchResponse, error) {
			resp := &structs.SearchResponse{Matches: map[string][]string{}}
			for kind, all := range ids {
				for _, id := range all {
					if strings.HasPrefix(id, r.Prefix) {
						resp.Matches[kind] = append(resp.Matches[kind], id)
					}
				}
			}
			return resp, nil
		})
}
