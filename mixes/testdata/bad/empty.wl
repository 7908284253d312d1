
 
# only
