// Package identities gives tasks their signed identities. The servers sign an allocation's in one call
// before its first task starts. The agent keeps the tokens in memory, puts them into the files and the
// variables that the job asks for, and renews them at half of their life. Other hooks of the allocation get
// them from hooks.AllocEnv.
//
// The agent asks for an identity that the job names, and for the default one only if the task sees it:
// nothing reads the others.
//
// No record has a token. After a restart of the agent the servers sign all of them anew, and the record of a
// task says when its process is to learn of the new ones. A task that runs goes on while the servers do not
// answer. A rejection of the servers, for example because the allocation has ended, ends the renewals.
package identities
