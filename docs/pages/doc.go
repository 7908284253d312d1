// Package pages writes the tables of documents that come from simulations and from committed runs, and tests that the
// documents show them. The claims about these simulations are tested here too, so that each simulation is made once.
//
//	go test ./docs/pages -update               writes all but what the searches of plan make
//	go test -tags full ./docs/pages -update    writes all of them
package pages
