package place

import (
	"cmp"
	"slices"

	"berth/scheduler/feasible"
	"berth/scheduler/rejects"
	"berth/structs"
	"berth/structs/capacity"
)

// A group with preferences reads more nodes once, and sorts them into classes of nodes that its preferences
// rate alike: by the weights of the affinities that match and by the values of the attributes of spreads. A
// sample begins with the classes of the best rating at that moment and takes some nodes of each. So it finds
// the nodes of a value that about one of a hundred nodes has, the cost of a placement does not depend on the
// size of the fleet, and the other scores still choose between near equals.
const (
	readAhead  = 1024 // nodes that a group with preferences reads before its first sample
	mostClass  = 128  // classes; the last one has the nodes of all further ones
	leastShare = 8    // feasible nodes of one class in a sample
	mostChosen = 16   // nodes of one class with an allocation of the plan that a sample has besides
)

// candidateSet has the nodes of a source that a group has read.
type candidateSet struct {
	group      *Group
	iter       cyclicIter
	read       int             // nodes of iter
	moved      map[string]bool // nodes that were moved to the front
	full       map[string]bool // by node
	front      []*candidate    // the next ones, of any class
	classes    []*nodeClass
	byKey      map[string]*nodeClass
	rejections *rejects.Count // of nodes that the group's filters rejected, or that are full

	// The memory of the last sample. The next one reuses it.
	top    topN
	reason []rejected
}

// candidate is a node that a group may get.
type candidate struct {
	node *structs.Node
	use  *capacity.NodeUse  // nil: not read yet
	view *feasible.NodeView // nil until its first trial
}

// hasView returns a function that finds the candidate with a view.
func hasView(v *feasible.NodeView) func(*candidate) bool {
	return func(c *candidate) bool { return c.view == v }
}

// nodeClass has the candidates that the preferences of the group rate alike: all candidates of a group
// without preferences.
type nodeClass struct {
	example  *structs.Node
	feasible []*candidate // passed the group's filters and not full, in the order of their trial
	chosen   []*candidate // feasible, with an allocation of the plan; the last one chosen is the last
	rating   float64      // of preferences, at the time of the sample
	next     int          // the first of feasible that the sample has not tried
	fitting  []*candidate // in the sample, except the chosen one
	rejected []*candidate // in the sample, not full
	found    int          // fitting nodes of the sample
}

// candidatesOf returns the candidates of the group from the source of a placement. All its placements from
// that source go on where the one before has stopped to read.
func (p *Placer) candidatesOf(w *Placement) *candidateSet {
	s := p.sourceOf(w)

	// Allocations of one group may have different sources: volumes per allocation are in different places.
	o := w.Group.candidateSets[s.name]
	if o == nil {
		o = &candidateSet{
			group: w.Group,
			iter: cyclicIter{
				source: s,
				first:  p.origin(),
			},
			moved:      map[string]bool{},
			full:       map[string]bool{},
			byKey:      map[string]*nodeClass{},
			rejections: rejects.NewCount(),
		}

		w.Group.candidateSets[s.name] = o
	}

	return o
}

// classOf returns the class of a node.
func (o *candidateSet) classOf(n *structs.Node) *nodeClass {
	key := ""
	if o.group.Spec.HasPreferences() {
		key = o.group.Spec.PreferenceClass(n)
	}

	c := o.byKey[key]
	switch {
	case c != nil:
		return c
	case len(o.classes) == mostClass:
		// A group that spreads over a value that each node has for itself would make a class of each node.
		return o.classes[mostClass-1]
	}

	c = &nodeClass{example: n}
	if o.iter.source.name == "" && !o.group.Spec.HasPreferences() { // about as many as a sample has
		c.feasible = make([]*candidate, 0, 2*Enough)
		c.fitting = make([]*candidate, 0, Enough)
	}

	o.byKey[key] = c
	o.classes = append(o.classes, c)
	return c
}

// readMore reads a few more nodes and returns their number, and how many of them are candidates. If there are
// none, the chosen nodes of the classes become candidates again.
func (o *candidateSet) readMore() (read, added int) {
	few := o.iter.readNodes(readBatch)
	o.read += len(few)
	if len(few) == 0 {
		for _, c := range o.classes {
			added += c.reuseChosen()
		}
	}

	for i := range few {
		n := &few[i]

		// It has been a candidate before its turn, and is counted.
		if len(o.moved) > 0 && o.moved[n.node.ID] {
			continue
		}

		if o.group.Spec.Admit(o.rejections, n.node) {
			c := o.classOf(n.node)
			c.feasible = append(c.feasible, n)
			added++
		}
	}

	return len(few), added
}

// reuseChosen makes the chosen nodes the last candidates and returns their number.
func (c *nodeClass) reuseChosen() int {
	n := len(c.chosen)
	c.feasible = append(c.feasible, c.chosen...)
	c.chosen = nil
	return n
}

// readAhead reads the nodes of which the first sample of a group with preferences chooses.
func (o *candidateSet) readAhead() {
	if !o.group.Spec.HasPreferences() {
		return
	}
	for o.read < readAhead {
		read, added := o.readMore()
		if read == 0 && added == 0 {
			return
		}
	}
}

// moveToFront makes a node the next candidate.
func (o *candidateSet) moveToFront(n *structs.Node) {
	var passes bool

	// Admit counts the node, which must happen once.
	known := o.moved[n.ID] || o.iter.hasPassed(n.ID)
	if known {
		passes = o.group.Spec.CheckNode(n) == nil
	} else {
		passes = o.group.Spec.Admit(o.rejections, n)
	}

	o.moved[n.ID] = true
	if !passes {
		return
	}

	same := func(other *candidate) bool {
		return other.node.ID == n.ID
	}
	if known {
		c := o.classOf(n)
		c.chosen = slices.DeleteFunc(c.chosen, same)
		c.feasible = slices.DeleteFunc(c.feasible, same)
		o.front = slices.DeleteFunc(o.front, same)
	}

	o.front = slices.Insert(o.front, 0, &candidate{node: n})
}

// exhausted reports whether it has read and tried every node, and none of them is full because of the group.
func (o *candidateSet) exhausted() bool {
	untried := func(c *nodeClass) bool { return c.next < len(c.feasible) }
	return o.iter.source.name == "" && o.iter.ended && len(o.full) == 0 &&
		len(o.front) == 0 && !slices.ContainsFunc(o.classes, untried)
}

// sample is the trial of candidates for one allocation.
type sample struct {
	top    topN
	reason []rejected // the rejecting nodes, with their reasons
	found  int        // fitting nodes
	tried  int
	enough int  // fitting nodes
	bound  int  // of tried
	mayEnd bool // at the bound, also without a fitting node

	repeats bool // see Placer.repeats
}

// rejected is a node of a sample that a filter has rejected. It is counted when the sample has ended.
type rejected struct {
	node *structs.Node
	why  *rejects.Rejection
}

func (s *sample) ended() bool {
	return s.found >= s.enough || (s.mayEnd || s.found > 0) && s.tried >= s.bound
}

// try adds the result of one node of a class.
func (s *sample) try(p *feasible.Outlook, w *Placement, c *nodeClass, n *candidate) {
	s.tried++
	if n.view == nil {
		// A view may cost a read of the allocations of its node, so it is made when the sample comes to the
		// node.
		n.view = p.ViewWith(n.node, n.use)
	}
	mean, r := s.rate(p, w, n.view)
	switch {
	case r == nil:
		s.found++
		c.found++
		c.fitting = append(c.fitting, n)
		s.top.insert(ranked{n.view, mean})
	case !leavesFull(r):
		c.rejected = append(c.rejected, n)
	}
}

// rate returns the mean of the scores of a node, or its rejection, which it records.
func (s *sample) rate(p *feasible.Outlook, w *Placement, v *feasible.NodeView) (float64, *rejects.Rejection) {
	// A view forgets its trial at each change, so this one is of now.
	if s.repeats && v.Fits.Group == w.Group.Spec {
		return v.Fits.Mean, nil
	}
	r := p.Check(&w.demand, v)
	if r != nil {
		s.reason = append(s.reason, rejected{v.Node, r})
		return 0, r
	}
	mean := rankNode(w, v).mean
	if s.repeats {
		v.Fits = feasible.Fit{Group: w.Group.Spec, Mean: mean}
	}
	return mean, nil
}

// repeats reports whether a placement finds on a node the same as the placement before it, if the plan has
// not changed the node since: it replaces nothing, and neither volumes nor other nodes matter. Most nodes of
// a sample were in the sample before.
func (p *Placer) repeats(w *Placement) bool {
	g := w.Group
	return !p.options.Anew && w.Prev == nil && w.data == nil && !w.demand.UsesVolumes() &&
		!g.Spec.DependsOnOthers()
}

// leavesFull reports whether a node that has rejected an allocation of the group rejects all others of the
// plan.
func leavesFull(r *rejects.Rejection) bool {
	return r.Filter == rejects.FilterResources || r.Filter == rejects.FilterHosts
}

// sampleNodes tries candidates until it has enough feasible nodes, or most nodes if most is not 0. all
// reports whether it has the results of every node. top is valid until the next sample of the candidates.
func (p *Placer) sampleNodes(w *Placement, o *candidateSet, most int) (top topN, t *rejects.Count, all bool) {
	s := sample{
		enough: p.options.Enough,
		bound:  cmp.Or(most, max(maxSampled, p.options.Enough)),
		mayEnd: most != 0,

		repeats: p.repeats(w),
		top:     o.top[:0],
		reason:  o.reason[:0],
	}

	o.readAhead()

	// The front has the node of the predecessor and those with freed capacity: the likely places.
	for len(o.front) > 0 && !s.ended() {
		n := o.front[0]
		o.front = o.front[1:]
		s.try(p.outlook, w, o.classOf(n.node), n)
	}

	for !s.ended() {
		for _, c := range o.rated() {
			p.tryClass(w, o, c, &s)
		}

		// With preferences a fitting node ends the sample: readAhead has read the nodes among which they
		// choose.
		if s.ended() || s.found > 0 && len(o.classes) > 1 {
			break
		}

		read, added := o.readMore()
		if read == 0 && added == 0 {
			break
		}

		// Those that the group's filters rejected count, too, or a job for few nodes would read the fleet
		// each time.
		s.tried += read - min(read, added)
	}

	all = o.exhausted()
	for _, c := range o.classes {
		p.tryChosen(w, c, &s)
	}

	o.settle(&s)
	o.top = s.top
	o.reason = s.reason
	t = o.rejections.Clone()
	for _, r := range s.reason {
		// settle has counted the full ones for all further placements.
		if !o.full[r.node.ID] {
			t.AddRejection(r.node, *r.why)
		}
	}

	return s.top, t, all
}

// rated returns the classes, those with the best rating first.
func (o *candidateSet) rated() []*nodeClass {
	if len(o.classes) < 2 {
		return o.classes
	}
	for _, c := range o.classes {
		// The spread changes with each placement, so a rating holds for one sample.
		c.rating = o.group.Spec.Affinity(c.example) + o.group.Spec.Spread(c.example)
	}
	return slices.SortedStableFunc(slices.Values(o.classes), func(a, b *nodeClass) int {
		return cmp.Compare(b.rating, a.rating)
	})
}

// tryClass tries candidates of a class until it has its share of the sample. A class among others whose
// candidates all have an allocation of the plan uses these again, because the others are no substitute.
func (p *Placer) tryClass(w *Placement, o *candidateSet, c *nodeClass, s *sample) {
	share := s.enough
	if len(o.classes) > 1 {
		share = min(share, max(leastShare, s.enough/len(o.classes)))
	}
	for c.found < share && !s.ended() {
		if c.next == len(c.feasible) && (len(o.classes) == 1 || c.reuseChosen() == 0) {
			return
		}
		n := c.feasible[c.next]
		c.next++
		s.try(p.outlook, w, c, n)
	}
}

// tryChosen adds the nodes of a class that the group got last. They are no part of the share of the class, so
// a group can spread over more nodes than a sample has. The scores decide whether it does: an unused node is
// better than an equal one with an allocation of the group, but a large empty one is not.
func (p *Placer) tryChosen(w *Placement, c *nodeClass, s *sample) {
	if c.found == 0 {
		return // other classes are better
	}
	for _, n := range c.chosen[max(0, len(c.chosen)-mostChosen):] {
		if mean, rejected := s.rate(p.outlook, w, n.view); rejected == nil {
			s.top.insert(ranked{n.view, mean})
		}
	}
}

// settle orders the candidates of each class for the next allocation: first the other feasible nodes of this
// sample, then the untried ones, then the rejecting ones. The chosen node is the last of the chosen ones. It
// drops full nodes.
func (o *candidateSet) settle(s *sample) {
	for _, r := range s.reason {
		if leavesFull(r.why) && !o.full[r.node.ID] {
			o.full[r.node.ID] = true
			o.rejections.AddRejection(r.node, *r.why)
		}
	}

	var best *feasible.NodeView
	if len(s.top) > 0 {
		best = s.top[0].view
	}

	for _, c := range o.classes {
		if c.next > 0 || c.found > 0 || len(c.rejected) > 0 {
			c.settle(best)
		}

		if len(s.reason) > 0 {
			c.chosen = slices.DeleteFunc(c.chosen, func(n *candidate) bool { return o.full[n.node.ID] })
		}
	}
}

// settle is candidateSet.settle for one class. It writes the feasible nodes into the places of the tried
// ones, because a class may be large.
func (c *nodeClass) settle(best *feasible.NodeView) {
	if at := slices.IndexFunc(c.fitting, hasView(best)); at >= 0 {
		c.chosen = append(c.chosen, c.fitting[at])
		c.fitting = slices.Delete(c.fitting, at, at+1)
	} else if at := slices.IndexFunc(c.chosen, hasView(best)); at >= 0 {
		last := c.chosen[at]
		c.chosen = append(slices.Delete(c.chosen, at, at+1), last)
	}

	missing := len(c.fitting) - c.next // of the places: some nodes were in front of the classes
	if missing > 0 {
		c.feasible = slices.Insert(c.feasible, 0, c.fitting[:missing]...)
		c.next += missing
	}

	begin := c.next - len(c.fitting)
	copy(c.feasible[begin:], c.fitting)
	c.feasible = append(c.feasible[begin:], c.rejected...)
	c.next = 0
	c.found = 0
	c.fitting = c.fitting[:0]
	c.rejected = c.rejected[:0]
}
