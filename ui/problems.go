package ui

import (
	"context"
	"net/url"

	"berth/api"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/volumes"
	"berth/structs"
	"berth/ui/pages"
	"berth/ui/views"
)

// wrongTopics are those of the rows in which the first view looks.
const wrongTopics = "CSIVolume,Claim,Node,Evaluation,Deployment,Allocation,Instance,Fence"

const (
	// mostProblems is how many problems of a kind the view shows.
	mostProblems = 20
	// mostExplained is how many of them it explains: each explanation is a read of its own.
	mostExplained = 10
	// mostPlugins and mostDeployments bound the rows in which the view looks for problems.
	mostPlugins     = 200
	mostDeployments = 200
	// mostLost bounds the lost nodes whose volumes are shown, and mostHeld the claims of each that are read.
	mostLost = 100
	mostHeld = 200
)

// The filters of the rows that are a problem. An allocation is one if it should run, does not, and is not
// replaced.
const (
	wrongNodes   = `Status != "ready"`
	lostNodes    = `Status == "down"`
	heldClaims   = `State == "granted"`
	wrongVolumes = `Waiting != 0 or Schedulable == false or State != "ready" or Drift != ""`
	wrongAllocs  = `DesiredStatus == "run" and NextAllocation == "" and ` +
		`(ClientStatus == "failed" or ClientStatus == "lost" or ClientStatus == "unknown")`
)

// found are the problems of one kind. more says that there may be others.
type found struct {
	problems []views.Problem
	more     bool
}

// search finds the problems of one kind.
type search struct {
	name string
	all  string // the path of the view that has them all
	find func(context.Context, *api.Client) (found, error)
}

// quickSearches are the kinds of problems of which the first view finds those in a large cluster at once.
// slowSearches read each row of large tables if there are few problems, so a part of its own has them.
var (
	quickSearches = []search{
		{"servers", Root + "topology", findServers},
		{"differences between servers", Root + "topology", findDifferences},
		{"archives", Root + "topology", findArchives},
		{"nodes", Root + "nodes?show=unready", findNodes},
		{"plugins", Root + "plugins", findPlugins},
		{"jobs", Root + "jobs?show=pending", findJobs},
		{"deployments", Root + "jobs", findDeployments},
	}
	slowSearches = []search{
		{"volumes of lost nodes", Root + "nodes?show=unready", findStuck},
		{"volumes", Root + "volumes?show=waiting", findVolumes},
		{"uses of volumes", Root + "volumes", findUses},
		{"allocations", Root + "allocations?show=failed", findAllocs},
	}
)

// showProblems shows what is wrong now. The script of the page adds the part of slowPath.
func showProblems(c *call) (*content, error) {
	shown, err := c.findProblems("Servers, nodes, plugins and jobs", quickSearches)
	if err != nil {
		return nil, err
	}
	shown.After = pages.Slow(slowPath + "?" + url.Values{"namespace": {c.namespace}}.Encode())
	return shown, nil
}

// slowPath is the path of the part of the first view that needs longer.
const slowPath = Root + "slow"

// showSlowProblems shows the rest of what is wrong now.
func showSlowProblems(c *call) (*content, error) {
	return c.findProblems("Volumes and allocations", slowSearches)
}

// findProblems finds the problems of some kinds. The kinds are read at the same time.
func (c *call) findProblems(heading string, searches []search) (*content, error) {
	ctx, cancel := c.ctx()
	defer cancel()

	client := c.client(c.namespace)
	results := make([]found, len(searches))
	var denied error
	var readings []reading
	errs := make([]error, len(searches))
	for i, s := range searches {
		readings = append(readings, reading{s.name, func() error {
			results[i], errs[i] = s.find(ctx, client)
			return errs[i]
		}})
	}
	data := pages.Problems{Heading: heading, Faults: readTogether(readings...)}

	for i, f := range results {
		data.Problems = append(data.Problems, f.problems...)
		if f.more {
			data.More = append(data.More, pages.Link{Name: searches[i].name, To: searches[i].all})
		}
		if structs.IsKind(errs[i], structs.KindDenied) {
			denied = errs[i]
		}
	}
	data.Problems = views.MergeVolumes(data.Problems)
	// A caller who may read nothing needs a token, and not a list of faults.
	if denied != nil && len(data.Faults) == len(searches) {
		return nil, denied
	}
	return contentOf("", pages.ProblemList(data)), nil
}

// few are the options of a read that looks for problems.
func few(filter string) *api.Query {
	return &api.Query{Filter: filter, PerPage: mostProblems, AllowStale: true}
}

func findServers(ctx context.Context, c *api.Client) (f found, err error) {
	servers, err := readServers(ctx, c)
	if err != nil {
		return f, err
	}
	for _, m := range servers {
		p, ok := views.ServerProblem(m)
		if ok {
			f.problems = append(f.problems, p)
		}
	}

	return f, nil
}

// findDifferences asks the leader, which compares the servers. Without a leader no difference is known: the
// search for servers says what is wrong.
func findDifferences(ctx context.Context, c *api.Client) (f found, err error) {
	health, _, err := operator.AutopilotHealth(ctx, c, nil)
	if structs.IsKind(err, structs.KindUnavailable) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	for _, d := range health.Differences {
		f.problems = append(f.problems, views.DifferenceProblem(d))
	}
	return f, nil
}

// findArchives asks the leader, which saves the archives. An agent without a server, or one that knows no
// HTTP address of the leader, cannot ask it.
func findArchives(ctx context.Context, c *api.Client) (f found, err error) {
	leader, err := operator.AgentSelfOf(ctx, c, "leader")
	if structs.IsKind(err, structs.KindNotFound) || structs.IsKind(err, structs.KindPrecondition) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	p, ok := views.ArchiveProblem(leader.Stats["snapshot_agent"])
	if ok {
		f.problems = append(f.problems, p)
	}
	return f, nil
}

func findNodes(ctx context.Context, c *api.Client) (f found, err error) {
	all, meta, err := nodes.List(ctx, c, few(wrongNodes))
	if err != nil {
		return f, err
	}
	f.more = meta.NextToken != ""
	for i, n := range all {
		p := views.NodeProblem(n, nil)
		if i < mostExplained {
			lost, _, err := nodes.FenceStatus(ctx, c, n.ID, nil)
			if err == nil { // without the facts the problem is still one
				p = views.NodeProblem(n, lost)
			}
		}
		f.problems = append(f.problems, p)
	}
	return f, nil
}

func findPlugins(ctx context.Context, c *api.Client) (f found, err error) {
	plugins, meta, err := volumes.ListPlugins(ctx, c, &api.Query{PerPage: mostPlugins, AllowStale: true})
	if err != nil {
		return f, err
	}
	f.more = meta.NextToken != ""
	for _, g := range plugins {
		p, ok := views.PluginProblem(g)
		if !ok {
			continue
		}
		if len(f.problems) == mostProblems {
			f.more = true
			break
		}
		f.problems = append(f.problems, p)
	}
	return f, nil
}

func findVolumes(ctx context.Context, c *api.Client) (f found, err error) {
	rows, meta, err := volumes.List(ctx, c, volumes.Filter{}, few(wrongVolumes))
	if err != nil {
		return f, err
	}
	f.more = meta.NextToken != ""
	for i, v := range rows {
		p := views.VolumeProblem(v)
		if i < mostExplained {
			why, _, err := volumes.Why(ctx, c, v.ID, &api.Query{Namespace: v.Namespace})
			if err == nil {
				p.Explain(why)
			}
		}
		f.problems = append(f.problems, p)
	}
	return f, nil
}

// findStuck finds the volumes that lost nodes have: nobody else writes to them until somebody releases them.
// Their queues may be empty, because the jobs that need them have no place.
func findStuck(ctx context.Context, c *api.Client) (f found, err error) {
	q := &api.Query{Filter: lostNodes, PerPage: mostLost, AllowStale: true}
	all, meta, err := nodes.List(ctx, c, q)
	if err != nil {
		return f, err
	}
	f.more = meta.NextToken != ""
	shown := map[string]bool{} // a volume is a problem once
	for _, n := range all {
		q := &api.Query{Filter: heldClaims, PerPage: mostHeld, AllowStale: true}
		held, meta, err := volumes.ListClaims(ctx, c, volumes.ClaimFilter{NodeID: n.ID}, q)
		if err != nil {
			return f, err
		}
		f.more = f.more || meta.NextToken != ""
		s := views.StuckVolume{Node: n}
		for _, s.Claim = range held {
			volume := s.Claim.Namespace + "/" + s.Claim.VolumeID
			if shown[volume] {
				continue
			}
			if len(f.problems) == mostProblems {
				f.more = true
				return f, nil
			}
			shown[volume] = true
			if s.Lost == nil { // without the facts the problem is still one
				s.Lost, _, _ = nodes.FenceStatus(ctx, c, n.ID, nil)
			}
			s.Why = nil
			if len(f.problems) < mostExplained {
				s.Why, _, _ = volumes.Why(ctx, c, s.Claim.VolumeID, &api.Query{Namespace: s.Claim.Namespace})
			}
			f.problems = append(f.problems, s.Problem())
		}
	}
	return f, nil
}

// findUses finds volumes that are nearly full or ill. The servers ask the nodes for all uses at once, so the
// page does that in a small cluster alone.
func findUses(ctx context.Context, c *api.Client) (f found, err error) {
	_, meta, err := volumes.List(ctx, c, volumes.Filter{}, &api.Query{PerPage: maxPerPage, AllowStale: true})
	if err != nil {
		return f, err
	}
	if meta.NextToken != "" {
		return f, structs.Preconditionf("there are more than %d volumes; to ask the nodes for all uses: "+
			"berth volume list -sort usage", maxPerPage)
	}
	all, err := volumes.ListUsage(ctx, c, &api.Query{AllowStale: true})
	if err != nil {
		return f, err
	}
	f.problems, f.more = views.UsageProblems(all, mostProblems)
	return f, nil
}

func findJobs(ctx context.Context, c *api.Client) (f found, err error) {
	q := &api.Query{PerPage: mostProblems, AllowStale: true}
	evals, meta, err := jobs.FilterEvaluations(ctx, c, jobs.EvalFilter{Status: structs.EvalBlocked}, q)
	if err != nil {
		return f, err
	}
	f.more = meta.NextToken != ""
	shown := map[string]bool{} // a job is a problem once
	for _, e := range evals {
		job := e.Namespace + "/" + e.JobID
		if shown[job] {
			continue
		}
		shown[job] = true
		p := views.JobProblem(e)
		if len(f.problems) < mostExplained {
			why, _, err := jobs.Why(ctx, c, e.JobID, &api.Query{Namespace: e.Namespace})
			if err == nil {
				p.Explain(why)
			}
		}
		f.problems = append(f.problems, p)
	}
	return f, nil
}

// findDeployments finds the jobs whose newest deployment has failed. A later one has replaced the others. It
// looks at the newest deployments alone: a failure that is older has been there for long.
func findDeployments(ctx context.Context, c *api.Client) (f found, err error) {
	deployments, _, err := jobs.ListDeployments(ctx, c, &api.Query{
		Sort:       structs.SortCreate,
		Reverse:    true,
		PerPage:    mostDeployments,
		AllowStale: true,
	})
	if err != nil {
		return f, err
	}
	newer := map[string]bool{}
	for _, d := range deployments {
		job := d.Namespace + "/" + d.JobID
		if d.Status == structs.DeploymentFailed && !newer[job] && len(f.problems) < mostProblems {
			f.problems = append(f.problems, views.DeploymentProblem(d))
		}
		newer[job] = true
	}
	return f, nil
}

func findAllocs(ctx context.Context, c *api.Client) (f found, err error) {
	allocs, meta, err := allocs.List(ctx, c, few(wrongAllocs))
	if err != nil {
		return f, err
	}
	f.more = meta.NextToken != ""
	for _, a := range allocs {
		f.problems = append(f.problems, views.AllocProblem(a))
	}
	return f, nil
}
