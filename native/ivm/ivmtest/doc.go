// Package ivmtest tests IVM (native/ivm and benchmarks/ivm): it runs C programs under ivmd.
package ivmtest
