// Package areas lists the routes of all areas of the API. It is apart: the areas import api, and the agent
// hands the list to its handler.
package areas

import (
	"cmp"
	"slices"

	"berth/api"
	"berth/api/access"
	"berth/api/allocs"
	"berth/api/events"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/volumes"
)

// Routes returns all routes in the order of their paths. Of one path, reads come first and removals last.
func Routes() []*api.Route {
	all := slices.Concat(
		api.SessionRoutes(),
		access.Routes(),
		allocs.Routes(),
		events.Routes(),
		jobs.Routes(),
		nodes.Routes(),
		operator.Routes(),
		volumes.Routes(),
	)

	order := []string{api.Get, api.Put, api.Remove}
	slices.SortFunc(all, func(a, b *api.Route) int {
		byMethod := slices.Index(order, a.Methods) - slices.Index(order, b.Methods)
		return cmp.Or(cmp.Compare(a.Path, b.Path), byMethod)
	})
	return all
}
