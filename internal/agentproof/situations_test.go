package agentproof

import "berth/structs"

// situations are the rows of the table in docs/operations/lost-nodes.md.
var situations = []situation{
	{
		name: "the agent restarts, also after a change of the leader",
		free: cell{atOnce, ""}, full: cell{atOnce, ""},
		agents: []agentCase{{name: "the next nonce", row: row(), given: next(m1, "b1", claimed)}},
		server: serverCell{votesAtOnce, ""},
		servers: []serverCase{
			back("soon", first(alive), "a1"),
			back("later", first(failed), "a1"),
			back("after the wait", first(gone), "a1"),
			back("nobody knows it yet", nil, "a1"),
			back("the others do not know its machine", &KnownServer{Server: Server{Name: "s1"}, Alive: true}, "a1"),
			startsOn(back("its first start", nil, "a1"), Start{Now: m1}),
			startsOn(back("its machine-id was made anew", first(alive), "a1"),
				Start{Kept: m1, Now: "product:1 machine:9", Voter: true}),
		},
		todo: "nothing",
	},
	{
		name: "the machine reboots",
		free: cell{afterLease, ""}, full: cell{afterLease, ""},
		agents: []agentCase{
			{name: "the next nonce", row: row(), given: next(m1, "b2", rebooted)},
			{name: "the machine does not tell what it is", row: row(machine("")), given: next("", "b2", rebooted)},
			{name: "it did not tell its UUID", row: row(machine("machine:1")), given: next(m1, "b2", rebooted)},
		},
		server:  serverCell{votesAtOnce, ""},
		servers: []serverCase{back("later", first(failed), "a1"), back("after the wait", first(gone), "a1")},
		todo:    "nothing",
	},
	{
		name: "all machines start at the same time, as after a power failure",
		free: cell{afterLease, "; on the machine of the leader at once"},
		full: cell{afterLease, "; on the machine of the leader at once"},
		agents: []agentCase{
			{name: "on another machine", row: row(), given: next(m1, "b2", rebooted), noLast: true, leaderBoot: "b3"},
			{name: "on the machine of the leader", row: row(), given: next(m1, "b2", rebooted), noLast: true,
				leaderBoot: "b2", free: &atOnce, full: &atOnce},
		},
		server:  serverCell{votesAtOnce, ""},
		servers: []serverCase{back("nobody knows it yet", nil, "a1")},
		todo:    "nothing",
	},
	{
		name: "the machine gets another address, on purpose or from DHCP",
		free: cell{atOnce, ""}, full: cell{atOnce, ""},
		agents: []agentCase{{name: "no address counts", row: row(), given: next(m1, "b1", claimed)}},
		server: serverCell{votesAtOnce, "; the others have the new address after some seconds"},
		servers: []serverCase{
			back("at once", first(alive), "a9"),
			back("later", first(failed), "a9"),
		},
		todo: "nothing",
	},
	{
		name: "the machine, or its data directory, is put back to an earlier state",
		free: cell{whenDown, ""},
		full: cell{needsProof, "; a leader that has changed since takes a state with the newest mark " +
			"for a restart or a reboot"},
		agents: []agentCase{
			{name: "from before the first claim", row: row(), given: older(m1, "b2", early)},
			{name: "from after it, rebooted", row: row(), given: older(m1, "b2", rebooted), hasLast: true},
			{name: "from after it, resumed", row: row(), given: older(m1, "b1", claimed), hasLast: true},
			{name: "from after it, rebooted, the leader has changed", row: row(), given: older(m1, "b2", rebooted),
				noLast: true, free: &afterLease, full: &afterLease},
			{name: "from after it, resumed, the leader has changed", row: row(), given: older(m1, "b1", claimed),
				noLast: true, free: &atOnce, full: &atOnce},
		},
		server: serverCell{hasLost, ""},
		servers: []serverCase{
			withLog(back("an earlier disk", first(failed), "a1"), stored-1),
			withLog(back("an empty log", first(gone), "a1"), 0),
		},
		todo: "a node with volumes: [prove](#the-commands-in-order) that nothing writes there. Servers: see " +
			"[too few are left](servers.md#copies-of-a-server)",
	},
	{
		name: "`client/client.db` is removed",
		free: cell{afterLease, "; after a reboot, when the node is down"},
		full: cell{afterLease, ", with its tasks and mounts; after a reboot it is a second agent: needs a proof"},
		agents: []agentCase{
			{name: "in the same boot", row: row(), given: withoutRecords(m1, "b1", "8:1")},
			{name: "of a machine without a UUID", row: row(machine("machine:1")),
				given: withoutRecords("machine:1", "b1", "8:1")},
			{name: "it was rejected before", row: row(), given: func() *structs.AgentProof {
				p := withoutRecords(m1, "b1", "8:1")
				p.Rejected = true
				return p
			}()},
			{name: "rebooted", row: row(), given: withoutRecords(m1, "b2", "8:1"),
				free: &whenDown, full: &needsProof},
			{name: "on another machine", row: row(), given: withoutRecords(m2, "b1", "8:1"),
				free: &whenDown, full: &needsProof},
			{name: "the UUID is known on one side", row: row(), given: withoutRecords("machine:1", "b1", "8:1"),
				free: &whenDown, full: &needsProof},
			{name: "no side knows the machine", row: row(machine("")), given: withoutRecords("", "b1", "8:1"),
				free: &whenDown, full: &needsProof},
			{name: "no side knows the boot", row: row(func(n *structs.Node) { n.BootID = "" }),
				given: withoutRecords(m1, "", "8:1"), hasLast: true, free: &whenDown, full: &needsProof},
			{name: "in a copy of its directory", row: row(), given: withoutRecords(m1, "b1", "8:9"),
				free: &whenDown, full: &needsProof},
			{name: "the row is older than the store", row: row(func(n *structs.Node) { n.Store = "" }),
				given: withoutRecords(m1, "b1", ""), free: &whenDown, full: &needsProof},
		},
		server: serverCell{noServer, ""},
		todo:   "nothing; after a reboot [prove](#the-commands-in-order) that the first boot has ended",
	},
	{
		name: "a copy of the disk starts on another machine, the first one lives",
		free: cell{whileLives, ""}, full: cell{whileLives, ""},
		agents: []agentCase{
			{name: "older than the last heartbeat", row: row(), given: older(m2, "b9", claimed)},
			{name: "as new as it", row: row(), given: next(m2, "b9", rebooted)},
			{name: "on the same host", row: row(), given: next(m2, "b1", claimed)},
		},
		server: serverCell{isRejected, ": it is no member, has no vote and gives none"},
		servers: []serverCase{
			copied("another name and address", first(alive), "s9", "a9"),
			copied("its name", first(alive), "s1", "a9"),
		},
		todo: "stop one of the two",
	},
	{
		name: "such a copy, older than the cut, and the first one is cut off",
		free: cell{whenDown, ""}, full: cell{needsProof, ""},
		agents: []agentCase{
			{name: "the leader has not changed", row: row(), given: older(m2, "b9", claimed), hasLast: true},
			{name: "from before the first claim", row: row(), given: older(m2, "b9", early), hasLast: true},
		},
		server: serverCell{isRejected, " for 5 minutes; then the first one counts as gone"},
		servers: []serverCase{
			withLog(copied("another name and address", first(failed), "s9", "a9"), stored-1),
			withLog(copied("its name", first(failed), "s1", "a9"), stored-1),
		},
		todo: "prove that the first one is off",
	},
	{
		name: "such a copy, newer than the cut, and the first one is cut off",
		free: cell{whenDown, ""}, full: cell{needsProof, ""},
		agents: []agentCase{
			{name: "the leader has not changed", row: row(), given: next(m2, "b9", rebooted), hasLast: true},
			{name: "the machine does not tell what it is", row: row(), given: next("", "b9", rebooted),
				hasLast: true},
		},
		server:  serverCell{isRejected, " for 5 minutes, likewise"},
		servers: []serverCase{copied("another name and address", first(failed), "s9", "a9")},
		todo:    "prove that the first one is off",
	},
	{
		name: "such a copy, older or newer, the first one is cut off, and the leader has changed",
		free: cell{whenDown, ""}, full: cell{needsProof, ""},
		agents: []agentCase{
			{name: "older", row: row(), given: older(m2, "b9", claimed), noLast: true},
			{name: "newer", row: row(), given: next(m2, "b9", rebooted), noLast: true},
			{name: "on the same host", row: row(), given: next(m2, "b1", claimed), noLast: true},
			{name: "the machine does not tell what it is", row: row(), given: next("", "b9", rebooted),
				noLast: true},
		},
		server:  serverCell{isRejected, " for 5 minutes, likewise"},
		servers: []serverCase{copied("another name and address", first(failed), "s9", "a9")},
		todo:    "prove that the first one is off",
	},
	{
		name: "such a copy, and the first one is gone",
		free: cell{whenDown, ""}, full: cell{afterProof, " after a proof, which releases the volumes"},
		agents: []agentCase{
			{name: "older", row: row(), given: older(m2, "b9", claimed)},
			{name: "newer", row: row(), given: next(m2, "b9", rebooted)},
		},
		server: serverCell{isAddedAnew, "; the first one must have been silent for 5 minutes, or have left"},
		servers: []serverCase{
			copied("silent", first(gone), "s9", "a9"),
			copied("silent, with its name", first(gone), "s1", "a9"),
			copied("it had left", first(hasLeft), "s9", "a9"),
		},
		todo: "a node with volumes: prove that the first one is off",
	},
	{
		name: "the first one comes back after a copy got its place",
		free: cell{whenDown, ""}, full: cell{needsProof, ""},
		agents: []agentCase{
			{name: "it returns", row: row(takenByCopy), given: next(m1, "b1", claimed), noLast: true},
		},
		server: serverCell{isRejected, " while the copy lives; before that was added anew, it takes its place back"},
		servers: []serverCase{
			afterCopy("the copy votes", false, nil),
			afterCopy("the copy has no vote", true, &votesAtOnce),
		},
		todo: "stop one of the two",
	},
	{
		name: "the disk is moved to another machine on purpose, or the machine gets another board",
		free: cell{whenDown, ""}, full: cell{needsProof, ""},
		agents: []agentCase{{name: "rebooted", row: row(), given: next(m2, "b2", rebooted)}},
		server: serverCell{isAddedAnew, "; that takes 5 minutes of silence, unless it has left before"},
		servers: []serverCase{
			copied("after the wait", first(gone), "s1", "a9"),
			copied("it had left", first(hasLeft), "s1", "a9"),
			otherwise(copied("within the wait", first(failed), "s1", "a9"), &isRejected),
		},
		todo: "drain a node before; have a server [leave](servers.md#copies-of-a-server) before, one at a time",
	},
	{
		name: "the state of the servers is restored from an archive",
		free: cell{atOnce, "; if the machine was rebooted since, when the lease has ended"},
		full: cell{atOnce, ", likewise; after more than 8 later boots and first claims it is a second agent"},
		agents: []agentCase{
			{name: "in the boot of the archive", row: row(), given: next(m1, "b1", claimed), noLast: true},
			{name: "in another boot", row: row(beforeReboot), given: next(m1, "b2", rebooted), noLast: true,
				free: &afterLease, full: &afterLease},
			{name: "its mark is forgotten", row: row(beforeReboot), given: next(m1, "b2", []string{"boot20"}),
				noLast: true, free: &whenDown, full: &needsProof},
			{name: "a copy comes", row: row(), given: next(m2, "b9", rebooted),
				noLast: true, free: &whenDown, full: &needsProof},
		},
		server:  serverCell{votesAtOnce, ""},
		servers: []serverCase{forgotten(back("no entry of the new state is known", first(alive), "a1"))},
		todo:    "nothing",
	},
	{
		name: "the disk is replaced, a node begins with its former ID",
		free: cell{whenDown, ""}, full: cell{needsProof, ""},
		agents: []agentCase{
			{name: "rebooted", row: row(), given: withoutRecords(m1, "b2", "8:1")},
			{name: "in the same boot", row: row(), given: withoutRecords(m1, "b1", "8:9")},
		},
		server:  serverCell{isNew, ", under another ID; the vote of the former one ends"},
		servers: []serverCase{fresh("no ID is kept")},
		todo:    "a node with volumes: prove that nothing writes to them; otherwise nothing",
	},
	{
		name: "it was purged or removed, and comes back",
		free: cell{atOnce, ": the first that comes, also a copy"},
		full: cell{atOnce, ": `node purge` has released them"},
		agents: []agentCase{
			{name: "it", given: next(m1, "b2", rebooted)},
			{name: "a copy", given: older(m2, "b9", claimed)},
		},
		server: serverCell{isNew, ""},
		servers: []serverCase{
			back("it was removed", first(hasLeft), "a1"),
			back("the others have forgotten it", nil, "a1"),
		},
		todo: "purge and remove what is surely off",
	},
	{
		name: "**a whole machine is started twice**, with one identity, as new as the cut",
		free: cell{afterLease, ", as a reboot"}, full: cell{afterLease, ", **as a reboot: see below**"},
		agents: []agentCase{{name: "it looks like a reboot", row: row(), given: next(m1, "b9", rebooted)}},
		server: serverCell{votesAtOnce,
			", **as a restart**; under another name, it is rejected while the first one lives",
		},
		servers: []serverCase{
			back("it looks like a restart", first(failed), "a9"),
			otherwise(named(back("it has another name", first(alive), "a9"), "s9"), &isRejected),
		},
		todo: "see below",
	},
	{
		name: "likewise, and the node pool has `reboot = \"ask\"`",
		free: cell{afterLease, ", as a reboot"}, full: cell{needsProof, ", as each reboot"},
		agents: []agentCase{
			{name: "a reboot", row: row(), given: next(m1, "b9", rebooted), ask: true},
			{name: "no reboot", row: row(), given: next(m1, "b1", claimed), ask: true, free: &atOnce, full: &atOnce},
		},
		server: serverCell{noServer, ""},
		todo:   "prove that the first one is off",
	},
}

// serversAlone are the rows of the table in docs/operations/servers.md: further cases of servers.
var serversAlone = []situation{
	{
		name:   "a restart under another name on its machine",
		server: serverCell{votesAtOnce, "; it joins when the others have taken the former name for failed"},
		servers: []serverCase{
			named(back("they have", first(failed), "a9"), "s9"),
			otherwise(named(back("not yet", first(alive), "a9"), "s9"), &isRejected),
			otherwise(named(back("nor do they know its machine",
				&KnownServer{Server: Server{Name: "s1"}, Alive: true}, "a9"), "s9"), &isRejected),
		},
		todo: "nothing",
	},
	{
		name:   "the machine at an address is replaced, with the data directory and the address of the first one",
		server: serverCell{isAddedAnew, ""},
		servers: []serverCase{
			copied("within the wait", first(failed), "s1", "a1"),
		},
		todo: "nothing",
	},
	{
		name:   "a majority is moved to other machines at the same time, or restored there",
		server: serverCell{isAddedAnew, "; too few are left to elect one"},
		servers: []serverCase{
			copied("nobody knows another place", nil, "s1", "a1"),
		},
		todo: "[write peers.json](#servers-that-join-leave-and-move) on each of them",
	},
	{
		name:   "one of two servers is moved to another machine, or one of three while another one is dead",
		server: serverCell{isAddedAnew, "; too few are left to elect one"},
		servers: []serverCase{
			copied("the wait is over", first(gone), "s1", "a9"),
		},
		todo: "start the dead one, or [write peers.json](#servers-that-join-leave-and-move) on those that are left",
	},
	{
		name:   "an operator writes `peers.json` on another machine",
		server: serverCell{votesAtOnce, " there, and from then on"},
		servers: []serverCase{
			startsOn(back("the file was taken in", nil, "a1"), Start{Kept: m2, Now: m2, Voter: true}),
		},
		todo: "nothing",
	},
	{
		name:   "the only server starts on another machine",
		server: serverCell{votesAtOnce, ": nobody else could elect a leader"},
		servers: []serverCase{
			startsOn(back("it has the only vote", nil, "a1"), Start{Kept: m1, Now: m2, Voter: true, Only: true}),
		},
		todo: "see to it that the first machine stays off",
	},
	{
		name:   "a server without a vote starts on another machine",
		server: serverCell{isNew, ""},
		servers: []serverCase{
			startsOn(back("after the wait", first(gone), "a9"), Start{Kept: m1, Now: m2}),
		},
		todo: "nothing",
	},
	{
		name:   "a server cannot read the UUID of its machine any more",
		server: serverCell{votesAtOnce, ", and its log says so"},
		servers: []serverCase{
			startsOn(back("another user", first(alive), "a1"), Start{Kept: m1, Now: "machine:1", Voter: true}),
		},
		todo: "run it by `berth-server.service`, or as root",
	},
	{
		name:   "a machine tells its identity no longer",
		server: serverCell{isAddedAnew, ""},
		servers: []serverCase{
			startsOn(back("no machine-id", first(failed), "a1"), Start{Kept: m1, Voter: true}),
		},
		todo: "give the machine an `/etc/machine-id` that stays",
	},
	{
		name:   "a disk is put back, and too few others are left for a leader",
		server: serverCell{hasLost, ""},
		servers: []serverCase{
			withLog(back("an earlier disk", first(failed), "a1"), stored-1),
		},
		todo: "start the others, or [write peers.json](#servers-that-join-leave-and-move) on one of them",
	},
	{
		name:    "a new data directory under the name or the address of a server",
		server:  serverCell{isNew, ""},
		servers: []serverCase{fresh("another ID")},
		todo:    "nothing",
	},
}
